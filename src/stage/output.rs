//! The output fits its schema, or it is withheld.

use serde_json::Value;

use crate::rejection::Failed;
use crate::stage::handler::Raw;
use crate::stage::idempotency::Begun;
use crate::trail::Trail;

/// The most bytes of JSON that an output may have.
const MAX_OUTPUT: usize = 1 << 20;

/// An output that its schema allows. Not yet fit to leave.
pub(crate) struct Checked(Value);

impl Checked {
    pub(super) fn into_json(self) -> Value {
        self.0
    }
}

pub(crate) fn check(_: &mut Trail, begun: &Begun, raw: Raw) -> Result<Checked, Failed> {
    let output = raw.into_json();
    begun.capability().output.check(&output).map_err(Failed::Output)?;
    let size = serde_json::to_string(&output).map_or(usize::MAX, |it| it.len());
    if size > MAX_OUTPUT {
        return Err(Failed::Output(vec![format!("{size} bytes, at most {MAX_OUTPUT}")]));
    }
    Ok(Checked(output))
}
