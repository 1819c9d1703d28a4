//! Stages 2 to 8 without the store, beside the same facts given to the same libraries by hand.

use std::hint::black_box;

use countersign::bench::Gate;
use countersign::{CapabilityId, ExecutionId, Filter, JsonInput};

use crate::Failure;
use crate::floor::Floor;
use crate::shop::{builder, dana, directory, engine, input, name, source};
use crate::table::{Table, Target, each, median, now};

/// Policies of one capability.
const RULES: usize = 10;
const MANY: usize = 100;

const ROUNDS: usize = 400;
const CALLS: u32 = 50;

pub(crate) async fn measure(table: &mut Table) -> Result<(), Failure> {
    let directory = directory()?;
    let few = Side::new(1, "", directory.path(), "few.db").await?;
    let many = Side::new(MANY, "", directory.path(), "many.db").await?;
    let hiding = Side::new(1, HIDE, directory.path(), "hiding.db").await?;
    let shadowed = Side::shadowed(directory.path(), "shadowed.db").await?;
    let floor = Floor::new(&few.gate.schema(), &rules(0), &few.input_schema)?;
    if !floor.lets_pass()? {
        return Err("the floor refuses what the engine lets pass".into());
    }
    let (mut of_floor, mut of_few, mut of_many) = (vec![], vec![], vec![]);
    let (mut of_hiding, mut of_shadowed) = (vec![], vec![]);
    for _ in 0..ROUNDS {
        let began = now();
        for _ in 0..CALLS {
            black_box(floor.lets_pass()?);
        }
        of_floor.push(each(began.elapsed(), CALLS));
        of_few.push(few.round().await?);
        of_many.push(many.round().await?);
        of_hiding.push(hiding.round().await?);
        of_shadowed.push(shadowed.round().await?);
    }
    let [floor, few, many, hiding, shadowed] =
        [of_floor, of_few, of_many, of_hiding, of_shadowed].map(|it| median(&it));
    let limit = Target::AtMost;
    table.judge("gate, 10 policies : by hand", (few, floor), "us", limit(1.5));
    table.judge("gate, 1,000 policies : 10 policies", (many, few), "us", limit(1.3));
    table.judge("gate with a candidate that denies : gate, 10 policies", (shadowed, few), "us", limit(2.0));
    table.compare("gate, 10 policies and a hide : by hand without it", (hiding, floor), "us");
    Ok(())
}

/// An engine with calls to one of its capabilities.
struct Side {
    gate: Gate,
    capability: CapabilityId,
    execution: ExecutionId,
    input: JsonInput,
    input_schema: serde_json::Value,
}

impl Side {
    async fn new(count: usize, more: &str, at: &std::path::Path, database: &str) -> Result<Self, Failure> {
        let policies: String = (0..count).map(rules).chain([more.to_owned()]).collect();
        Self::of(&engine(count, &policies, at, database).await?).await
    }

    /// Ten policies beside ten others that say no: the difference is written down, too.
    async fn shadowed(at: &std::path::Path, database: &str) -> Result<Self, Failure> {
        let candidate = rules(0).replace("principal in Role::\"support\"", "principal in Role::\"trainee\"");
        let builder = builder(1, &rules(0), at, database).shadow_policies(source(&candidate));
        Self::of(&builder.build().await?).await
    }

    async fn of(engine: &countersign::Engine) -> Result<Self, Failure> {
        let listed = engine.on_behalf_of(dana(), ()).capabilities(Filter::all().ids([name(0)])).await?;
        let listed = listed.into_iter().next().ok_or("nothing is listed")?;
        let gate = Gate::new(engine, dana());
        let (execution, input) = ("0192f0c1-a2b3-7c5d-8e9f-0123456789ab".into(), input().into());
        Ok(Self { gate, capability: listed.id, execution, input, input_schema: (*listed.input_schema).clone() })
    }

    async fn round(&self) -> Result<f64, Failure> {
        let began = now();
        for _ in 0..CALLS {
            if !black_box(self.gate.lets_pass(&self.execution, &self.capability, &self.input).await) {
                return Err("the gate is closed".into());
            }
        }
        Ok(each(began.elapsed(), CALLS))
    }
}

const HIDE: &str = r#"@id("hide") @hide forbid (principal, action in Action::"effect/write", resource) when { context.surface == "mcp" };"#;

/// Four permits, four plain forbids and two gates of one capability; one permit holds, and nothing else.
fn rules(number: usize) -> String {
    let scope = format!("action == Action::\"{}\", resource", name(number));
    let policies: [(&str, &str, &str); RULES] = [
        ("permit", "principal in Role::\"support\"", ""),
        ("permit", "principal in Role::\"manager\"", ""),
        ("permit", "principal is Service", "when { principal.scopes.contains(\"orders\") }"),
        ("permit", "principal is User", "when { context.input.amountCents < 1000 }"),
        ("forbid", "principal", "when { context.input.amountCents >= 500000 }"),
        ("forbid", "principal", "when { context.surface == \"mcp\" }"),
        ("forbid", "principal", "unless { context.tenant == \"acme\" }"),
        ("forbid", "principal", "when { context.input.reason == \"test\" }"),
        ("@approval(\"manager\") forbid", "principal", "when { context.input.amountCents > 50000 }"),
        ("@approval(\"human\") forbid", "principal in Role::\"trainee\"", ""),
    ];
    let policies = policies.iter().enumerate().map(|(at, (effect, principal, condition))| {
        format!("@id(\"{number}-{at}\") {effect} ({principal}, {scope}) {condition};\n")
    });
    policies.collect()
}
