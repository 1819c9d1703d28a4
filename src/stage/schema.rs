//! The input is normalised, fits the schema, and has its hash. From here on it is frozen (INV-6).

use crate::actor::ActorKind;
use crate::caller::{Call, JsonInput};
use crate::rejection::Rejection;
use crate::schema::{Accepted, Given};
use crate::stage::exposure::Exposed;
use crate::store::Store;
use crate::trail::Trail;

/// A call with input that is valid for its capability.
pub(crate) struct Valid {
    pub(super) exposed: Exposed,
    pub(super) input: Accepted,
}

pub(crate) fn validate(trail: &mut Trail, exposed: Exposed, store: &Store) -> Result<Valid, Rejection> {
    let call = exposed.identified.call();
    let checked = check_key(call).and_then(|()| accept(call, &exposed));
    match checked {
        Ok(input) => {
            trail.has_input(store.evidence(&call.identity.tenant, &input.hash));
            Ok(Valid { exposed, input })
        }
        // A bad input must not reveal more than a good one would.
        Err(rejection) => Err(exposed.refused_anyway(trail).unwrap_or(rejection)),
    }
}

/// Before the input, on every call.
fn check_key(call: &Call) -> Result<(), Rejection> {
    let Some(key) = &call.key else { return Ok(()) };
    let legal = (1..=255).contains(&key.len()) && key.bytes().all(|b| b.is_ascii_graphic());
    let named = call.identity.actor().is_some_and(|it| it.kind != ActorKind::Anonymous);
    if legal && named { Ok(()) } else { Err(Rejection::KeyInvalid) }
}

fn accept(call: &Call, exposed: &Exposed) -> Result<Accepted, Rejection> {
    let given = match &call.input {
        JsonInput::Text(text) => Given::Text(text),
        JsonInput::Value(value) => Given::Value(value),
        JsonInput::Unfit(it) => return Err(Rejection::InputInvalid((*it.0).clone())),
    };
    let accepted = exposed.capability.input.accept(&exposed.capability.id, &given);
    match (&call.presented, accepted) {
        // APR-7: what was approved is what runs, or nothing does.
        (Some(presented), Ok(input)) if *input.hash != *presented.binding.input_hash => Err(Rejection::SchemaChanged),
        (Some(_), Err(_)) => Err(Rejection::SchemaChanged),
        (_, accepted) => accepted.map_err(Rejection::InputInvalid),
    }
}
