//! What the writer can be asked about what leaves: cursors of exports, and comments that are to be erased. None of it is
//! on the way of a call.

/// One step of a cursor. Doing one again is harmless: a cursor that was moved is found where it was to be.
#[cfg_attr(not(feature = "cli"), expect(dead_code, reason = "asked by commands"))]
#[derive(Clone, Debug)]
pub(crate) enum Export {
    /// Begins behind this event, unless there is one of this name.
    Begin { name: String, format: &'static str, sink: String, seq: i64 },
    /// The other side has everything up to `to`, for certain.
    Move { name: String, from: i64, to: i64, sink: String },
    /// An attempt failed: it stays where it is.
    Stop { name: String, from: i64, failure: String },
    /// Forgets it.
    Drop { name: String },
}

/// Erases comments, each by its approval and [`crate::actor::Party::folded`] of who wrote it.
#[derive(Clone, Debug)]
pub(crate) struct Erase {
    pub(crate) comments: Vec<(String, String)>,
    /// Who sat there, `cli:ada`.
    pub(crate) by: String,
}

impl Export {
    pub(in super::super) fn each_text(&self, look: &mut dyn FnMut(&str)) {
        match self {
            Self::Begin { name, format, sink, .. } => [name, *format, sink].into_iter().for_each(look),
            Self::Move { name, sink, .. } => [name, sink].into_iter().for_each(|it| look(it)),
            Self::Stop { name, failure, .. } => [name, failure].into_iter().for_each(|it| look(it)),
            Self::Drop { name } => look(name),
        }
    }
}

impl Erase {
    pub(in super::super) fn each_text(&self, look: &mut dyn FnMut(&str)) {
        look(&self.by);
        for (approval, person) in &self.comments {
            look(approval);
            look(person);
        }
    }
}
