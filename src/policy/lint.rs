//! What is wrong with policies that parse: strict validation against the generated schema, and the traps that Cedar's
//! validator passes over.

mod names;
mod overflow;
mod portion;
mod warn;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cedar_policy::pst::{Clause, Expr, ResourceConstraint, Template, Var};
use cedar_policy::{
    ActionConstraint, Policy, PolicySet, ValidationError, ValidationMode, ValidationWarning, Validator,
};

use super::parse::{help, label};
use super::problem::{SourceFile, did_you_mean, find_word};
use super::rules::{Kind, Origin, Rule};
use super::schema::{CAPABILITY_FILE, Generated};
use super::slice::{Scope, invoke_action, manage_action};
use super::tree::{body, children, condition, context_member, rebuild};
use super::{ManageAction, PolicyProblem};
use crate::capability::Governed;

/// How far a policy may follow entities: `resource.requesterUser.department` is 2. What is further is not loaded.
const MAX_DEREFERENCES: u32 = 2;

const COMPARE: &str = "compare the name with the schema: `countersign policy schema`";

pub(super) struct Linter<'a> {
    files: &'a [SourceFile],
    rules: &'a [Rule],
    generated: &'a Generated,
    governed: &'a [Arc<Governed>],
    /// Id, and the application's entity that it acts on.
    capabilities: BTreeMap<&'a str, Option<&'a str>>,
    validator: Validator,
}

impl<'a> Linter<'a> {
    pub(super) fn new(
        files: &'a [SourceFile],
        rules: &'a [Rule],
        generated: &'a Generated,
        governed: &'a [Arc<Governed>],
    ) -> Self {
        let entity = |it: &'a Arc<Governed>| it.meta.resource.as_ref().map(|it| it.entity.as_str());
        let capabilities = governed.iter().map(|it| (it.id.as_str(), entity(it))).collect();
        let validator = Validator::new(generated.schema.clone());
        Self { files, rules, generated, governed, capabilities, validator }
    }

    /// `None`: a thread could not start, or it ended early.
    pub(super) fn check(&self) -> Option<Vec<PolicyProblem>> {
        portion::in_turns(&portion::portions(self), |it| {
            let narrow = it.schema(self).map(Validator::new);
            self.check_portion(&it.rules, narrow.as_ref().unwrap_or(&self.validator))
        })
    }

    fn check_portion(&self, rules: &[&Rule], validator: &Validator) -> Vec<PolicyProblem> {
        let mut problems = self.validate(rules, validator);
        let mut probed = BTreeMap::new();
        for rule in rules {
            self.literals(rule, &mut problems);
            problems.extend(self.unasked(rule));
            if let Some(template) = body(&rule.policy) {
                self.reach(rule, &template, &mut problems);
                self.dead_has(rule, &template, (validator, &mut probed), &mut problems);
            }
        }
        problems
    }

    /// A problem of a rule, at an offset into its text.
    pub(super) fn problem(&self, rule: &Rule, offset: usize, what: impl Into<String>) -> PolicyProblem {
        let problem = match rule.origin {
            Origin::File { index, start } => self.files[index].problem(start + offset, what),
            Origin::Capability => PolicyProblem::of_file(CAPABILITY_FILE, what),
        };
        problem.policy(&rule.id)
    }

    /// A problem of a rule, where a word stands in it.
    fn problem_at(&self, rule: &Rule, word: &str, what: impl Into<String>) -> PolicyProblem {
        self.problem(rule, find_word(self.text(rule), word).unwrap_or(0), what)
    }

    /// A rule's file from the rule on.
    fn text(&self, rule: &Rule) -> &str {
        match rule.origin {
            Origin::File { index, start } => &self.files[index].text[start..],
            Origin::Capability => "",
        }
    }

    /// Where an expression stands; if it is written in another way than Cedar prints it, where this word does.
    fn problem_at_expr(&self, rule: &Rule, expr: &Expr, word: &str, what: impl Into<String>) -> PolicyProblem {
        let printed = expr.to_string();
        let found = find_word(self.text(rule), &printed).is_some();
        self.problem_at(rule, if found { &printed } else { word }, what)
    }

    fn validate(&self, rules: &[&Rule], validator: &Validator) -> Vec<PolicyProblem> {
        let Ok(all) = PolicySet::from_policies(rules.iter().map(|it| it.policy.clone())) else {
            return vec![PolicyProblem::of_file("", "two policies have one id").help("rename one of them")];
        };
        let result = validator.validate_with_level(&all, ValidationMode::Strict, MAX_DEREFERENCES);
        // Cedar reports once for each kind of request, in the order of a hash set
        let mut errors = BTreeSet::new();
        for it in result.validation_errors() {
            let (id, what) = (it.policy_id().to_string(), it.to_string());
            let what = what.strip_prefix(&format!("for policy `{id}`")).map_or(&*what, |it| &it[2..]).to_owned();
            errors.insert((id, label(it), what, self.help_of(it)));
        }
        let mut problems: Vec<PolicyProblem> = errors
            .iter()
            .filter_map(|(id, at, what, help)| Some(self.problem(self.rule(id)?, *at, what).maybe_help(help.clone())))
            .collect();
        let mut dead = BTreeSet::new();
        for it in result.validation_warnings() {
            let id = it.policy_id().to_string();
            let (Some(rule), false) = (self.rule(&id), errors.iter().any(|it| it.0 == id)) else { continue };
            problems.extend(self.warning(rule, it, &mut dead));
        }
        problems
    }

    fn rule(&self, id: &str) -> Option<&Rule> {
        self.rules.binary_search_by(|it| it.id.as_str().cmp(id)).ok().map(|at| &self.rules[at])
    }

    fn warning(&self, rule: &Rule, it: &ValidationWarning, dead: &mut BTreeSet<String>) -> Option<PolicyProblem> {
        match it {
            ValidationWarning::ImpossiblePolicy(_) | ValidationWarning::InvalidActionApplication(_) => {
                if !dead.insert(rule.id.clone()) {
                    return None;
                }
                Some(if self.is_memberless(rule) {
                    self.problem(rule, 0, "no capability is in its groups yet, so it never applies").note()
                } else {
                    self.problem(rule, 0, "it can never apply, whatever the request")
                        .help("compare names and types of its scope and conditions with the schema")
                })
            }
            ValidationWarning::BidiCharsInString(_) | ValidationWarning::BidiCharsInIdentifier(_) => {
                Some(self.problem(rule, label(it), "a character that changes the direction of text").help("remove it"))
            }
            other => Some(self.problem(rule, label(other), other.to_string()).maybe_help(help(other)).warning()),
        }
    }

    /// Whether its scope names groups without members and nothing else.
    fn is_memberless(&self, rule: &Rule) -> bool {
        let ActionConstraint::In(groups) = rule.policy.action_constraint() else { return false };
        let schema = &self.generated.schema;
        let has_requests = |it| schema.resources_for_action(it).is_some_and(|mut all| all.next().is_some());
        let actions = &self.generated.actions;
        let has_member =
            |group| schema.actions().any(|it| has_requests(it) && (it == group || actions.is_ancestor_of(group, it)));
        !groups.iter().any(has_member)
    }

    /// Cedar does not know which capabilities exist.
    fn literals(&self, rule: &Rule, problems: &mut Vec<PolicyProblem>) {
        for uid in rule.policy.entity_literals() {
            if uid.type_name().to_string() != "Capability" {
                continue;
            }
            let id: &str = uid.id().unescaped();
            let problem = match self.capabilities.get(id) {
                None => self
                    .problem_at(rule, id, format!("there is no capability `{id}`"))
                    .help("`capabilities list` shows all")
                    .maybe_help(did_you_mean(id, self.capabilities.keys().copied())),
                Some(Some(entity)) => self
                    .problem_at(rule, id, format!("the resource of `{id}` is a `{entity}`, never a capability"))
                    .help(format!("write `action == Action::\"{id}\"`")),
                Some(None) => continue,
            };
            problems.push(problem);
        }
    }

    /// No policy is asked who may resume, so one that names it would not hold.
    fn unasked(&self, rule: &Rule) -> Option<PolicyProblem> {
        let resume = manage_action(ManageAction::Resume)?;
        let what = "no policy is asked about `resume`: only the requester resumes, and the call is decided again";
        let help = "leave it out, and forbid the capability's own action to whoever must not run it";
        rule.policy
            .entity_literals()
            .contains(&resume)
            .then(|| self.problem_at(rule, &resume.to_string(), what).help(help))
    }

    /// What hides and gates may look at: a hide is decided before there is input, and a gate that looked at its own
    /// approval could lift itself.
    fn reach(&self, rule: &Rule, template: &Template, problems: &mut Vec<PolicyProblem>) {
        let (allowed, help): (fn(&Expr) -> bool, _) = match &rule.kind {
            Kind::Permit | Kind::Deny => return,
            Kind::Hide => {
                (may_hide_by, "a hide may use `principal`, and `surface`, `client`, `tenant` and `now` of `context`")
            }
            Kind::Gate(_) => (may_gate_by, "an approval lifts the gate by itself: remove `context.approval`"),
        };
        if matches!(rule.kind, Kind::Hide) && !may_hide_in(&template.resource) {
            let what = "a hide names an entity, and none is loaded when it is decided";
            problems.push(self.problem_at(rule, "resource", what).help("name the action, or the resource's type"));
        }
        for clause in template.clauses() {
            let mut todo = vec![condition(clause)];
            while let Some(expr) = todo.pop() {
                if context_member(expr).is_some() || matches!(&**expr, Expr::Var(_)) {
                    if !allowed(expr) {
                        let what = format!("`{expr}` may not be used here");
                        let word = context_member(expr).map_or_else(|| expr.to_string(), str::to_owned);
                        problems.push(self.problem_at_expr(rule, expr, &word, what).help(help));
                    }
                } else {
                    todo.extend(children(expr));
                }
            }
        }
    }

    /// `has` on a misspelled attribute is well typed, just false, so Cedar says nothing unless the whole policy dies of
    /// it. So each is asked alone: the same scope, and only what guards the path.
    fn dead_has(
        &self,
        rule: &Rule,
        template: &Template,
        (validator, probed): (&Validator, &mut BTreeMap<String, bool>),
        problems: &mut Vec<PolicyProblem>,
    ) {
        let mut todo: Vec<&Arc<Expr>> = template.clauses().iter().map(condition).collect();
        while let Some(expr) = todo.pop() {
            todo.extend(children(expr));
            let Expr::HasAttr { expr: base, attrs } = &**expr else { continue };
            let Some(probe) = probe(template, expr) else { continue };
            let key = probe.to_string();
            let dead = *probed.entry(key).or_insert_with(|| is_impossible(validator, probe));
            // a policy that is dead as a whole is reported already, and a memberless group kills every probe
            if dead && !self.is_memberless(rule) {
                let what = format!("`{expr}` is false for every request");
                problems.push(
                    self.problem_at_expr(rule, expr, attrs.last(), what).help(COMPARE).maybe_help(self.near_member(
                        rule,
                        base,
                        &attrs.head,
                    )),
                );
            }
        }
    }

    /// The next step: what was probably meant. Cedar's own advice names something however far it is.
    fn help_of(&self, error: &ValidationError) -> Option<String> {
        let (text, advice) = (error.to_string(), help(error));
        let quoted = text.split('`').rev().nth(1).unwrap_or_default();
        match error {
            ValidationError::UnrecognizedActionId(_) => {
                let known: Vec<String> = self.generated.actions.iter().map(|it| it.uid().to_string()).collect();
                did_you_mean(quoted, known.iter().map(String::as_str)).or_else(|| Some(COMPARE.into()))
            }
            ValidationError::InvalidEnumEntity(_) => {
                let written = quoted.trim_matches('"');
                did_you_mean(written, self.generated.roles.iter().flatten().map(String::as_str)).or(advice)
            }
            ValidationError::UnsafeAttributeAccess(_) => self.help_of_member(&text, advice),
            _ => advice,
        }
    }

    /// For a member that only some inputs have, which.
    fn help_of_member(&self, text: &str, advice: Option<String>) -> Option<String> {
        let written = text.split('`').nth(3).unwrap_or_default();
        let path: Vec<&str> = written.split('.').collect();
        if let Some((&"input", member)) = path.split_first()
            && let Some(id) = names::inputs_with(self.generated, member).first()
        {
            return Some(format!("name the actions whose input has it, such as `Action::\"{id}\"`"));
        }
        let is_far = |it: &str| {
            let offered = it.strip_prefix("did you mean `").and_then(|it| it.strip_suffix("`?"));
            offered.is_some_and(|it| path.last().is_none_or(|name| did_you_mean(name, [it]).is_none()))
        };
        if advice.as_deref().is_some_and(is_far) { Some(COMPARE.into()) } else { advice }
    }

    /// The capabilities whose calls a rule can apply to, by its action.
    fn reached(&self, rule: &Rule) -> impl Iterator<Item = &'a Arc<Governed>> {
        self.governed.iter().filter(|it| self.invokes(rule, it))
    }

    fn invokes(&self, rule: &Rule, capability: &Governed) -> bool {
        let scope = Scope::new(&self.generated.actions);
        invoke_action(&capability.id).is_some_and(|it| scope.invokes(rule, &it))
    }

    fn near_member(&self, rule: &Rule, base: &Expr, name: &str) -> Option<String> {
        let known = names::members(base, self.generated, self.reached(rule).map(|it| it.id.as_str()));
        did_you_mean(name, known)
    }
}

fn is_impossible(validator: &Validator, policy: Policy) -> bool {
    let Ok(set) = PolicySet::from_policies([policy]) else { return false };
    let result = validator.validate(&set, ValidationMode::Strict);
    result.validation_passed()
        && result.validation_warnings().any(|it| matches!(it, ValidationWarning::ImpossiblePolicy(_)))
}

fn may_hide_by(expr: &Expr) -> bool {
    const FACTS: [&str; 4] = ["surface", "client", "tenant", "now"];
    context_member(expr).map_or(*expr == Expr::Var(Var::Principal), |it| FACTS.contains(&it))
}

fn may_gate_by(expr: &Expr) -> bool {
    context_member(expr).map_or(*expr != Expr::Var(Var::Context), |it| it != "approval")
}

fn may_hide_in(resource: &ResourceConstraint) -> bool {
    use cedar_policy::pst::EntityOrSlot::Entity;
    match resource {
        ResourceConstraint::Any | ResourceConstraint::Is(_) => true,
        ResourceConstraint::Eq(Entity(it))
        | ResourceConstraint::In(Entity(it))
        | ResourceConstraint::IsIn(_, Entity(it)) => it.ty.to_string() == "Capability",
        _ => false,
    }
}

/// The policy's scope, and nothing but this `has` and what guards its path.
fn probe(template: &Template, has: &Arc<Expr>) -> Option<Policy> {
    let Expr::HasAttr { expr, .. } = &**has else { return None };
    let mut guards = vec![Clause::When(Arc::clone(has))];
    let mut at = expr;
    while let Expr::GetAttr { expr, attr } = &**at {
        let attrs = cedar_policy::pst::NonEmpty::new(attr.clone());
        guards.push(Clause::When(Arc::new(Expr::HasAttr { expr: Arc::clone(expr), attrs })));
        at = expr;
    }
    if !matches!(&**at, Expr::Var(_)) {
        return None;
    }
    guards.reverse();
    let scope = (template.principal.clone(), template.action.clone(), template.resource.clone());
    let probe = Template::new("probe", template.effect, scope.0, scope.1, scope.2).try_with_clauses(guards).ok()?;
    rebuild(probe)
}
