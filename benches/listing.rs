//! Listing many capabilities, beside its own evaluations by Cedar by hand. The record of the listing is left out.

use std::hint::black_box;

use cedar_policy::{Authorizer, Context, Entities, EntityUid, PolicySet, Request, Schema};
use countersign::Filter;
use countersign::bench::Gate;

use crate::Failure;
use crate::floor::{capability, facts, known, principal, split, uid};
use crate::shop::{dana, directory, engine, name};
use crate::table::{Table, Target, each, median, now};

const COUNT: usize = 300;
const ROUNDS: usize = 60;

/// Two permits, a forbid that does not need the input, one that does, a gate that does, and a hide.
const POLICIES: &str = r#"
@id("support") permit (principal in Role::"support", action in Action::"orders.*", resource);
@id("manager") permit (principal in Role::"manager", action in Action::"orders.*", resource);
@id("tenant") forbid (principal, action in Action::"orders.*", resource) when { context.tenant == "globex" };
@id("large") forbid (principal, action in Action::"orders.*", resource) when { context.input.amountCents >= 500000 };
@id("gate") @approval("manager")
forbid (principal, action in Action::"orders.*", resource) when { context.input.amountCents > 50000 };
@id("hide") @hide forbid (principal, action in Action::"effect/write", resource) when { context.surface == "mcp" };
"#;

/// What is left of them while the input is unknown: the forbid `large` is not certain, the gate is possible.
const EXACT: &str = r#"
permit (principal in Role::"support", action in Action::"orders.*", resource);
permit (principal in Role::"manager", action in Action::"orders.*", resource);
forbid (principal, action in Action::"orders.*", resource) when { context.tenant == "globex" };
"#;
const POSSIBLE: &str = r#"forbid (principal, action in Action::"orders.*", resource);"#;
const HIDES: &str = r#"
forbid (principal, action in Action::"effect/write", resource) when { context.surface == "mcp" };
"#;

pub(crate) async fn measure(table: &mut Table) -> Result<(), Failure> {
    let directory = directory()?;
    let engine = engine(COUNT, POLICIES, directory.path(), "listing.db").await?;
    let gate = Gate::new(&engine, dana());
    let floor = Floor::new(&gate.schema())?;
    let filter = Filter::all();
    let (mut of_engine, mut of_floor, mut of_evaluations) = (vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        let began = now();
        let listed = black_box(gate.lists(&filter).await);
        of_engine.push(each(began.elapsed(), 1));
        let began = now();
        let questions = floor.questions()?;
        let asked = now();
        let open = questions.iter().filter(|it| floor.is_open(it)).count();
        of_floor.push(each(began.elapsed(), 1));
        of_evaluations.push(each(asked.elapsed(), 1));
        if (listed, open) != (COUNT, COUNT) {
            return Err(format!("{listed} and {open} of {COUNT} are listed").into());
        }
    }
    let [engine, floor, bare] = [of_engine, of_floor, of_evaluations].map(|it| median(&it));
    let what = "listing 300 : its Cedar requests and evaluations";
    table.judge(what, (engine, floor), "us", Target::AtMost(1.5));
    table.compare("listing 300 : the evaluations alone", (engine, bare), "us");
    Ok(())
}

struct Floor {
    authorizer: Authorizer,
    sets: [PolicySet; 4],
    capabilities: Vec<(EntityUid, EntityUid, Entities)>,
}

impl Floor {
    fn new(schema: &str) -> Result<Self, Failure> {
        let (schema, _) = Schema::from_cedarschema_str(schema)?;
        let (permits, forbids) = split(EXACT)?;
        let capabilities = (0..COUNT).map(|number| {
            let action = uid("Action", &name(number))?;
            let resource = capability(number)?;
            let named = resource.uid();
            let base = Entities::from_entities([known(&schema, &action)?, resource], None)?;
            Ok((action, named, base))
        });
        let capabilities = capabilities.collect::<Result<_, Failure>>()?;
        let sets = [HIDES.parse()?, permits, forbids, POSSIBLE.parse()?];
        Ok(Self { authorizer: Authorizer::new(), sets, capabilities })
    }

    /// One principal and one context; a request and entities for each capability.
    fn questions(&self) -> Result<Vec<(Request, Entities)>, Failure> {
        let principal = principal(&"User".parse()?, &"Role".parse()?)?;
        let context = Context::from_pairs(facts())?;
        let question = |(action, resource, base): &(EntityUid, EntityUid, Entities)| {
            let (action, resource) = (action.clone(), resource.clone());
            let request = Request::new(principal.uid(), action, resource, context.clone(), None)?;
            Ok((request, base.clone().add_entities([principal.clone()], None)?))
        };
        self.capabilities.iter().map(question).collect()
    }

    /// Not hidden, permitted, not forbidden; the gate's answer does not matter here, only the asking.
    fn is_open(&self, (request, entities): &(Request, Entities)) -> bool {
        let answers = self.sets.each_ref().map(|set| {
            let response = self.authorizer.is_authorized(request, set, entities);
            response.diagnostics().reason().count()
        });
        matches!(answers, [0, 1, 0, 1])
    }
}
