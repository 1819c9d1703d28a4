//! APR-12: an approval that nobody can give is a mistake that must show at start, not when somebody waits for it.

use cedar_policy::{Authorizer, Context, Decision, Entities, EntityUid, PolicySet, Request, RestrictedExpression};

use super::ManageAction;
use super::rules::{Kind, Rule};
use super::tree::{Bound, Known, body, rebuild};

/// Everything may be anything, but for the type that is decided.
const KNOWN: Known = Known { principal: false, resource: false, context: &["requirement"] };

/// Whether some permit of `approve` could let somebody decide this type: an over-approximation.
pub(super) fn can_be_given<'a>(
    approval_type: &str,
    permits: impl Iterator<Item = &'a Rule>,
    actions: &Entities,
) -> bool {
    let possible = permits
        .filter(|it| matches!(it.kind, Kind::Permit))
        .filter_map(|it| KNOWN.approximate(&body(&it.policy)?, Bound::Over).and_then(rebuild));
    // what cannot be asked is not refused
    let (Ok(set), Some(request)) = (PolicySet::from_policies(possible), request(approval_type)) else { return true };
    let answer = Authorizer::new().is_authorized(&request, &set, actions);
    answer.decision() == Decision::Allow || answer.diagnostics().errors().next().is_some()
}

fn request(approval_type: &str) -> Option<Request> {
    let uid = |text: &str| text.parse::<EntityUid>().ok();
    let action = uid(&format!("Countersign::Action::\"{}\"", ManageAction::Approve.as_str()))?;
    let requirement = RestrictedExpression::new_string(approval_type.to_owned());
    let context = Context::from_pairs([("requirement".to_owned(), requirement)]).ok()?;
    Request::new(uid("User::\"\"")?, action, uid("Countersign::Approval::\"\"")?, context, None).ok()
}
