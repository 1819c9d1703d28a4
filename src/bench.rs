//! What the benchmarks of this crate measure, and nobody else can reach. Not a part of the API.

use std::pin::pin;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::actor::{Identity, SharedIdentity, Surface};
use crate::budget::Budget;
use crate::caller::{JsonInput, Order, What};
use crate::capability::{Capability, Filter};
use crate::pipeline::Core;
use crate::policy::read;
use crate::registry::Registry;
use crate::stage::approval::Approval;
use crate::stage::{Stage, actor, approval, exposure, policy, schema};
use crate::trail::Trail;
use crate::{BuildError, CapabilityId, Engine, ExecutionId, PolicySource};

/// An engine without what its store does.
pub struct Gate {
    core: Arc<Core>,
    identity: SharedIdentity,
}

impl Gate {
    /// For calls of this party on the surface `direct`.
    pub fn new<C: Send + Sync + 'static>(engine: &Engine<C>, identity: impl Into<Identity>) -> Self {
        Self { core: Arc::clone(&engine.core), identity: Arc::new(identity.into().on(Surface::Direct)) }
    }

    /// Stages 2 to 8 of a call without a key, which ask nothing of the store: whether it may begin.
    ///
    /// `run` with the stages behind them left out; what it has between them is here too.
    pub async fn lets_pass(&self, execution: &ExecutionId, capability: &CapabilityId, input: &JsonInput) -> bool {
        let Core { registry, policies, store, clock, ids, resources, .. } = &*self.core;
        let what = What::Call { capability: capability.clone(), input: input.clone(), key: None };
        let (execution, identity) = (execution.clone(), Arc::clone(&self.identity));
        let order =
            Order { execution, identity, cancel: CancellationToken::new(), correlation: None, trace: None, what };
        let trail = Trail::open(clock, ids, self.core.probe.clone(), &order.execution, &order.identity);
        let trail = &mut trail.metered(&self.core.meters);
        let passed = async {
            let budget = Budget::new(clock, order.cancel.clone());
            let call = budget.within(pin!(self.core.load(trail, order))).await?;
            let identified = actor::require(trail.at(Stage::Actor), call)?;
            let policies = policies.follow(registry, store).await;
            let exposed = exposure::find(trail.at(Stage::Resolve), identified, registry, policies)?;
            let valid = schema::validate(trail.at(Stage::Schema), exposed, store)?;
            let permit = budget.within(pin!(policy::decide(trail.at(Stage::Policy), valid, resources))).await?;
            budget.within(pin!(approval::settle(trail.at(Stage::Approval), permit, store, ids, false))).await
        };
        matches!(passed.await, Ok(Approval::Granted(_)))
    }

    /// A listing without its record: how many capabilities it has.
    pub async fn lists(&self, filter: &Filter) -> usize {
        self.core.visible(&self.identity, filter).await.1.map_or(0, |it| it.len())
    }

    /// The Cedar schema that was generated.
    pub fn schema(&self) -> String {
        self.core.policies.current().set.schema_text().to_owned()
    }
}

/// Registers capabilities and gives them up again: how many there were.
///
/// # Errors
/// What is wrong with them.
pub fn register<C>(capabilities: Vec<Capability<C>>) -> Result<usize, BuildError> {
    let drafts = capabilities.into_iter().map(|it| it.draft).collect();
    Registry::new(drafts).map(|it| it.all().len()).map_err(|problems| BuildError { problems })
}

/// Checks the files of a policy set for capabilities: how many problems it has, and the schema that they are checked
/// against.
///
/// # Errors
/// What is wrong with the capabilities, or with the policies so that they do not load.
pub fn check<C>(capabilities: Vec<Capability<C>>, files: Vec<(String, String)>) -> Result<(usize, String), BuildError> {
    let drafts = capabilities.into_iter().map(|it| it.draft).collect();
    let registry = Registry::new(drafts).map_err(|problems| BuildError { problems })?;
    let (set, problems) = read(&PolicySource::Files(files))
        .load(&registry)
        .map_err(|problems| BuildError { problems: problems.iter().map(Into::into).collect() })?;
    Ok((problems.len(), set.schema_text().to_owned()))
}
