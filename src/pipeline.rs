//! One execution, from a call to its outcome. Knows nothing of the application's context type.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{Instrument as _, Span};

use crate::abandoned::Abandoned;
use crate::approval::ApprovalState;
use crate::approver::InlineApprover;
use crate::budget::Budget;
use crate::caller::{Call, JsonInput, Order, Presented, What};
use crate::clock::Clock;
use crate::deciding::{Standing, bound, opened, standing};
use crate::id::Ids;
use crate::invocation::{Body, Context};
use crate::ledger::Ledger;
use crate::meters::{Beside, Meters};
use crate::outcome::{ErrorCode, Outcome};
use crate::policies::Policies;
use crate::policy::ManageAction;
use crate::registry::Registry;
use crate::rejection::{Failed, Late, Rejection};
use crate::resource::Resources;
use crate::stage::actor::Identified;
use crate::stage::approval::{Approval, Grant};
use crate::stage::handler::{Control, Raw};
use crate::stage::idempotency::{Beginning, Begun};
use crate::stage::policy::Permit;
use crate::stage::record::{Ending, Recorded};
use crate::stage::{
    Output, Stage, actor, approval, exposure, handler, idempotency, output, policy, record, redaction, schema,
};
use crate::store::Store;
use crate::trail::{StageProbe, Trail, is_locator};
use crate::{ApprovalId, Identity, telemetry};

/// How often a changed policy set sends a call back to stage 5 before it is refused.
pub(crate) const POLICY_TRIES: u32 = 3;

/// What this process did besides calls, for the metrics.
#[derive(Debug, Default)]
pub(crate) struct Tallies {
    pub(crate) worker: crate::worker::Tally,
    #[cfg(feature = "http")]
    pub(crate) notifications: crate::notifications::Tally,
}

impl Tallies {
    /// In numbers, with the outbox of every process beside them.
    pub(crate) fn beside(&self, outbox: Option<[i64; 2]>) -> Beside {
        let number = |it: &AtomicU64| it.load(Ordering::Relaxed);
        let worker = &self.worker;
        Beside {
            worker: [&worker.picked, &worker.completed, &worker.put_off, &worker.refused].map(number),
            #[cfg(feature = "http")]
            notifications: {
                let it = &self.notifications;
                [&it.delivered, &it.failed, &it.dead].map(number)
            },
            #[cfg(not(feature = "http"))]
            notifications: [0; 3],
            outbox,
        }
    }
}

/// Everything that executions share.
pub(crate) struct Core {
    pub(crate) registry: Arc<Registry>,
    pub(crate) policies: Policies,
    pub(crate) store: Store,
    pub(crate) ledger: Ledger,
    pub(crate) clock: Clock,
    pub(crate) ids: Ids,
    pub(crate) tasks: TaskTracker,
    pub(crate) stop: CancellationToken,
    pub(crate) approver: Option<InlineApprover>,
    pub(crate) resources: Resources,
    pub(crate) abandoned: Abandoned,
    pub(crate) meters: Meters,
    #[cfg(feature = "http")]
    pub(crate) auth_failures: crate::auth::Failures,
    #[cfg(feature = "http")]
    pub(crate) tail: crate::tail::Tail,
    pub(crate) tallies: Tallies,
    pub(crate) probe: Option<StageProbe>,
}

impl Core {
    /// Takes one call to exactly one terminal event, and that one is on record (INV-13).
    pub(crate) async fn execute(self: Arc<Self>, order: Order, context: Context) -> Outcome {
        let span = telemetry::execution(&order.execution, order.identity.surface);
        pin!(self.recorded(order, context, span.clone())).instrument(span).await.into_outcome()
    }

    async fn recorded(self: Arc<Self>, order: Order, context: Context, span: Span) -> Recorded {
        let trail = Trail::open(&self.clock, &self.ids, self.probe.clone(), &order.execution, &order.identity);
        let mut trail = trail.metered(&self.meters);
        let recorded = match self.run(&mut trail, order, context).await {
            Ok(recorded) => recorded,
            Err(rejection) => record::refusal(&mut trail, rejection, &self.store, &self.clock).await,
        };
        trail.at(Stage::Reply);
        let capability = trail.envelope().capability_id.as_deref().and_then(|it| self.registry.get(it));
        self.meters.ended(capability.map(|it| it.handler), recorded.outcome(), trail.elapsed());
        telemetry::ended(&span, capability, trail.attempts, recorded.outcome());
        recorded
    }

    /// Every stage, in order. Before the begin commit `?` ends an execution; after it, only `record::finish` does.
    ///
    /// The loop is for what changed meanwhile: another active policy set, or a key that somebody else took.
    async fn run(self: &Arc<Self>, trail: &mut Trail, order: Order, context: Context) -> Result<Recorded, Rejection> {
        let budget = Budget::new(&self.clock, order.cancel.clone());
        let call = budget.within(pin!(self.load(trail, order))).await?;
        let mut identified = actor::require(trail.at(Stage::Actor), call)?;
        let mut tries = Tries::default();
        loop {
            let followed = async { Ok::<_, Rejection>(self.policies.follow(&self.registry, &self.store).await) };
            let policies = budget.within(pin!(followed)).await?;
            let exposed = exposure::find(trail.at(Stage::Resolve), identified.clone(), &self.registry, policies)?;
            let valid = schema::validate(trail.at(Stage::Schema), exposed, &self.store)?;
            let permit = budget.within(pin!(policy::decide(trail.at(Stage::Policy), valid, &self.resources))).await?;
            let grant = match self.settle(trail.at(Stage::Approval), permit, &budget).await? {
                Approval::Granted(grant) => grant,
                Approval::Known(known) => return budget.within(pin!(record::known(trail, known, &self.store))).await,
                Approval::Waiting(filed) => {
                    return budget.within(pin!(record::waiting(trail, filed, &self.store))).await;
                }
            };
            trail.at(Stage::Idempotency);
            let body = budget.within(pin!(self.context(&context, &grant))).await?; // nothing is spent yet
            let begun = match budget.within(pin!(idempotency::begin(trail, grant, &self.store))).await? {
                Beginning::Begun(begun) => begun,
                Beginning::KeyTaken(again) => {
                    identified = tries.key_taken(again)?;
                    continue;
                }
                Beginning::PolicyChanged(again) => {
                    identified = tries.policy_changed(again)?;
                    continue;
                }
            };
            let ended = self.perform(trail, &begun, body).await; // of `Failed`, which `?` cannot turn into a `Rejection`
            match record::finish(trail, begun, ended, &self.store, &self.clock).await? {
                Ending::Recorded(recorded, late) => return Ok(self.abandon(recorded, late)),
                Ending::PolicyChanged => identified = tries.policy_changed(identified)?,
            }
        }
    }

    /// Stage 8, in a span of its own.
    async fn settle(
        self: &Arc<Self>,
        trail: &mut Trail,
        permit: Permit,
        budget: &Budget<'_>,
    ) -> Result<Approval, Rejection> {
        let span = telemetry::approval();
        let settled = pin!(self.agreed(trail, permit, budget)).instrument(span.clone()).await;
        match &settled {
            Ok(approval) => {
                let (outcome, id) = approval.told();
                telemetry::settled(&span, outcome, id);
            }
            Err(rejection) => telemetry::told(&span, "refused", Some(rejection.code())),
        }
        settled
    }

    /// Where the application decides inline, its approver is asked, and the same execution goes on.
    async fn agreed(
        self: &Arc<Self>,
        trail: &mut Trail,
        permit: Permit,
        budget: &Budget<'_>,
    ) -> Result<Approval, Rejection> {
        let approver = self.approver.as_ref();
        let inline = approver.is_some();
        let settled = budget.within(pin!(approval::settle(trail, permit, &self.store, &self.ids, inline))).await?;
        let (filed, approver) = match (settled, approver) {
            (Approval::Waiting(filed), Some(approver)) => (filed, approver),
            (settled, _) => return Ok(settled),
        };
        budget.excused(approver.ask(self, &filed)).await?;
        let decided = budget.within(pin!(filed.decided(trail, &self.store))).await?;
        match decided {
            Ok(permit) => budget.within(pin!(approval::settle(trail, permit, &self.store, &self.ids, false))).await,
            Err(undecided) => Ok(Approval::Waiting(undecided)),
        }
    }

    /// Stage 9, first half: the application's context, made for the identity that will be served.
    async fn context(&self, context: &Context, grant: &Grant) -> Result<Arc<dyn Body>, Rejection> {
        self.abandoned.admit(grant.handler())?;
        context.body(&self.clock, grant.identity()).await.map_err(Rejection::Context)
    }

    /// Stages 10 to 13: the effect, and the way of its output to the outside.
    async fn perform(&self, trail: &mut Trail, begun: &Begun, body: Arc<dyn Body>) -> Result<Output, Failed> {
        let Self { clock, ids, tasks, stop, store, .. } = self;
        let raw = handler::run(trail, begun, body, Control { clock, ids, tasks, stop, store }).await?;
        let checked = output::check(trail.at(Stage::Output), begun, raw)?;
        redaction::apply(trail.at(Stage::Redaction), begun, checked)
    }

    /// Waits, in the background, for a handler that was still running when its execution was answered.
    fn abandon(self: &Arc<Self>, recorded: Recorded, late: Option<(Begun, Late)>) -> Recorded {
        if let Some((begun, handler)) = late {
            let place = self.abandoned.enter(begun.capability().handler);
            let core = Arc::clone(self);
            self.tasks.spawn(async move {
                core.reconcile(begun, handler).await;
                drop(place);
            });
        }
        recorded
    }

    /// Records how a handler ended that had been given up.
    async fn reconcile(&self, begun: Begun, handler: Late) {
        let mut trail = begun.late_trail(&self.clock, &self.ids);
        let ended = match Raw::late(handler, &begun).await {
            Ok(raw) => match output::check(trail.at(Stage::Output), &begun, raw) {
                Ok(checked) => redaction::apply(trail.at(Stage::Redaction), &begun, checked),
                Err(failed) => Err(failed),
            },
            Err(failed) => Err(failed),
        };
        record::late(trail.at(Stage::Record), &begun, ended, &self.store).await;
    }

    /// Turns an order into a call. A resume becomes the stored call, presenting its approval.
    pub(crate) async fn load(&self, trail: &mut Trail, order: Order) -> Result<Call, Rejection> {
        trail.correlates(order.correlation.as_deref());
        let Order { execution, identity, cancel, correlation, trace, what } = order;
        let call = |capability, input, key, correlation, presented| Call {
            execution,
            identity: Arc::clone(&identity),
            capability,
            input,
            key,
            correlation,
            trace,
            presented,
            cancel,
        };
        let call = match what {
            What::Call { capability, input, key } => {
                trail.requested(None);
                trail.names(&capability);
                call(Some(capability), input, key, correlation, None)
            }
            What::Resume { approval } => {
                trail.requested(Some(&approval));
                if identity.actor().is_none() {
                    call(None, JsonInput::text(""), None, correlation, None) // stage 3 refuses
                } else {
                    trail.at(Stage::Approval);
                    let (presented, input) = self.presented(&approval, &identity).await?;
                    let binding = &presented.binding;
                    trail.names(&binding.capability_id);
                    let correlation = correlation.or_else(|| binding.correlation_id.clone());
                    trail.correlates(correlation.as_deref());
                    let (capability, key) = (binding.capability_id.clone(), binding.idempotency_key.clone());
                    call(Some(capability), JsonInput::text(input), key, correlation, Some(presented))
                }
            }
        };
        // A closed tracker still spawns: refusing is up to us.
        if self.tasks.is_closed() { Err(Rejection::Unavailable("the engine shuts down")) } else { Ok(call) }
    }

    /// The approval that a resume names, if it is this caller's, open, and still what was bound.
    async fn presented(&self, id: &ApprovalId, identity: &Identity) -> Result<(Arc<Presented>, String), Rejection> {
        let missing = || Rejection::approval(ErrorCode::ApprovalNotFound);
        let record = if is_locator(id) { self.store.approval(id).await? } else { None };
        let record = record.filter(|it| *it.tenant == *identity.tenant).ok_or_else(missing)?;
        let requester = bound(&record).ok_or_else(missing)?.requester;
        if standing(ManageAction::Resume, identity, &requester) != Standing::Granted {
            return Err(missing());
        }
        if record.state != ApprovalState::Approved {
            return Err(approval::ended(&record));
        }
        let input = opened(&record, &self.store)?;
        Ok((approval::present(record, &self.store)?, input))
    }
}

/// How often a call went back to stage 5.
#[derive(Default)]
struct Tries {
    policies: u32,
    key: bool,
}

impl Tries {
    fn policy_changed(&mut self, again: Identified) -> Result<Identified, Rejection> {
        self.policies += 1;
        if self.policies < POLICY_TRIES { Ok(again) } else { Err(Rejection::PolicyUnstable) }
    }

    fn key_taken(&mut self, again: Identified) -> Result<Identified, Rejection> {
        if std::mem::replace(&mut self.key, true) { Err(Rejection::InProgress) } else { Ok(again) }
    }
}
