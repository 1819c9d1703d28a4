//! All capabilities of an engine, checked.

mod check;
mod digest;

use std::collections::HashMap;
use std::sync::Arc;

use crate::CapabilityId;
use crate::builder::Problem;
use crate::capability::{Draft, Governed};
use crate::schema::Compiler;

/// All capabilities of an engine, in registration order.
#[derive(Default)]
pub(crate) struct Registry {
    all: Vec<Arc<Governed>>,
    by_id: HashMap<CapabilityId, Arc<Governed>>,
}

impl Registry {
    /// Takes them all, or says everything that is wrong with them. The place in `drafts` becomes `Governed::handler`.
    pub(crate) fn new(drafts: Vec<Draft>) -> Result<Self, Vec<Problem>> {
        let compiler = Compiler::new();
        let mut problems = collisions(&drafts);
        let mut all = Vec::with_capacity(drafts.len());
        for (handler, draft) in drafts.into_iter().enumerate() {
            all.extend(govern(&compiler, draft, handler, &mut problems).map(Arc::new));
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let by_id = all.iter().map(|it| (it.id.clone(), Arc::clone(it))).collect();
        Ok(Self { all, by_id })
    }

    pub(crate) fn all(&self) -> &[Arc<Governed>] {
        &self.all
    }

    pub(crate) fn get(&self, id: &str) -> Option<&Arc<Governed>> {
        self.by_id.get(id)
    }
}

/// What capabilities need of the builder and did not get.
pub(crate) fn unmet(drafts: &[Draft], has_entities: bool, has_worker: bool) -> Vec<Problem> {
    let unprovided = unprovided(drafts).filter(|_| !has_entities);
    unprovided.chain(unworked(drafts).filter(|_| !has_worker)).collect()
}

/// Capabilities that are about an entity of the application, of an engine that nobody fetches entities for.
fn unprovided(drafts: &[Draft]) -> impl Iterator<Item = Problem> {
    let about = drafts.iter().filter_map(|it| Some((it, it.meta.resource.as_ref()?)));
    about.map(|(draft, resource)| {
        let what = format!("it is about an entity, `{}`, and nothing provides entities", resource.entity);
        Problem::new(&*draft.id, what, "give the builder a provider with `entities`, or remove `resource`")
    })
}

/// Capabilities that a worker is to run, of an engine that has none: it knows no requesters, or cannot make a context.
fn unworked(drafts: &[Draft]) -> impl Iterator<Item = Problem> {
    drafts.iter().filter(|it| it.meta.run_on_approval).map(|draft| {
        let what = "it runs on approval, and no worker could run it";
        let fix = "give the builder `requesters` and a `worker_context`, or remove `run_on_approval`";
        Problem::new(&*draft.id, what, fix)
    })
}

/// The name of a capability for MCP.
fn tool_name(draft: &Draft) -> String {
    draft.meta.tool_name.clone().unwrap_or_else(|| draft.id.replace('.', "_"))
}

/// Never last-wins: two capabilities with one name are an error that names both.
fn collisions(drafts: &[Draft]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut ids: HashMap<&CapabilityId, usize> = HashMap::new();
    let mut tools: HashMap<String, &CapabilityId> = HashMap::new();
    for (at, draft) in drafts.iter().enumerate() {
        if let Some(first) = ids.insert(&draft.id, at) {
            let what = format!("capabilities {} and {} both have the id `{}`", first + 1, at + 1, draft.id);
            problems.push(Problem::new(&*draft.id, what, "rename one of them"));
            continue; // its tool name collides for the same reason
        }
        let tool = tool_name(draft);
        if let Some(other) = tools.get(&tool) {
            let what = format!("`{other}` and `{}` both have the tool name `{tool}`", draft.id);
            problems.push(Problem::new(&*draft.id, what, "give one of them another with `tool_name`"));
        } else {
            tools.insert(tool, &draft.id);
        }
    }
    problems
}

/// Checks one draft, with every problem that it has.
fn govern(compiler: &Compiler, mut draft: Draft, handler: usize, problems: &mut Vec<Problem>) -> Option<Governed> {
    dedup(&mut draft);
    let known = problems.len();
    let tool_name = tool_name(&draft);
    problems.extend(check::all(&draft, &tool_name));
    let input_schema = Arc::new(draft.input_schema);
    let output_schema = Arc::new(draft.output_schema);
    let input = compiler.input(&draft.id, &input_schema, draft.decodes, problems);
    let output = compiler.output(&draft.id, &output_schema, problems);
    let redact = &draft.meta.redact;
    let redact_output = check::paths(&draft.id, "redact_output", &redact.output, &output_schema, problems);
    let redact_display = check::paths(&draft.id, "redact_display", &redact.display, &input_schema, problems);
    if problems.len() > known {
        return None;
    }
    let mut governed = Governed {
        id: draft.id,
        side_effect: draft.side_effect,
        risk: draft.meta.risk?,
        meta: draft.meta,
        tool_name,
        input_schema,
        output_schema,
        input: input?,
        output: output?,
        redact_output,
        redact_display,
        digest: String::new(),
        handler,
    };
    governed.digest = digest::of(&governed);
    Some(governed)
}

/// Exposing twice is exposing once, and so on.
fn dedup(draft: &mut Draft) {
    let meta = &mut draft.meta;
    meta.expose.sort_unstable();
    meta.expose.dedup();
    meta.tags.sort_unstable();
    meta.tags.dedup();
    meta.errors.sort_by(|left, right| (&left.code, &left.message).cmp(&(&right.code, &right.message)));
    meta.errors.dedup();
}

#[cfg(test)]
mod tests;
