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
    fits(size).map_err(|it| Failed::Output(vec![it]))?;
    Ok(Checked(output))
}

/// Whether so many bytes of JSON may be given out and kept.
pub(super) fn fits(size: usize) -> Result<(), String> {
    if size > MAX_OUTPUT { Err(format!("{size} bytes, at most {MAX_OUTPUT}")) } else { Ok(()) }
}
