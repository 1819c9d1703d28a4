//! What is still to be told, and whom.

use super::Sql;

/// The number of the last change, and what is subscribed to.
pub(crate) const SUBSCRIBED: Sql = Sql {
    columns: "",
    text: "
    SELECT DISTINCT h.subscriptions, CASE WHEN w.disabled THEN NULL ELSE s.topic END FROM audit_head h
    LEFT JOIN subscription s ON TRUE LEFT JOIN webhook w ON w.name = s.webhook",
};

/// event, topic, tenant, execution, approval, how many may be due: a row for each webhook that wants it; a dead one, if so
/// many are due already. Looks at no more of them than there are, and at no more than that.
pub(crate) const TELL: Sql = Sql {
    columns: "ttttti",
    text: "
    INSERT INTO outbox (event, webhook, topic, tenant, execution, approval, created_at, state, attempts, next_at, failure)
    SELECT v.column1, w.name, v.column2, v.column3, v.column4, v.column5, {now},
           CASE WHEN w.is_full THEN 'dead' ELSE 'due' END, 0, {now}, CASE WHEN w.is_full THEN 'full' END
    FROM {rows} CROSS JOIN subscription s
         CROSS JOIN (SELECT k.name, k.disabled,
                            EXISTS (SELECT 1 FROM outbox o WHERE o.webhook = k.name AND o.state = 'due'
                                    ORDER BY o.next_at, o.event LIMIT 1 OFFSET (SELECT MAX(v.column6) - 1 FROM {rows}))
                            AS is_full
                     FROM webhook k) w
    WHERE s.topic = v.column2 AND s.tenant IN ('', v.column3) AND w.name = s.webhook AND NOT w.disabled
    ON CONFLICT DO NOTHING",
};

/// how long before the end: open requests that end so soon, or with a quarter of their life left if that is later; each
/// once, so many at a time -> approval, tenant, execution envelope.
pub(crate) const WARN: Sql = Sql {
    columns: "i",
    text: "
    UPDATE approval SET warned = TRUE
    WHERE id IN (SELECT a.id FROM {rows} CROSS JOIN approval a
                 WHERE a.state IN ('pending', 'approved') AND NOT a.warned AND a.expires_at > {now}
                       AND a.expires_at <= {now} + v.column1 AND a.expires_at - (a.expires_at - a.filed_at) / 4 <= {now}
                 ORDER BY a.expires_at, a.id LIMIT 256)
    RETURNING id, tenant",
};

/// Every webhook with its subscriptions.
pub(crate) const WEBHOOKS: Sql = Sql {
    columns: "",
    text: "
    SELECT w.name, w.address, s.topic, s.tenant FROM webhook w LEFT JOIN subscription s ON s.webhook = w.name",
};

/// All of them, to be said anew.
pub(crate) const UNSUBSCRIBE: Sql = Sql { columns: "", text: "DELETE FROM subscription" };

/// name, digest of the address: another address is another receiver, so that it is enabled.
pub(crate) const PUT_WEBHOOK: Sql = Sql {
    columns: "tt",
    text: "
    INSERT INTO webhook (name, address) SELECT v.column1, v.column2 FROM {rows} WHERE v.column1 IS NOT NULL
    ON CONFLICT (name) DO UPDATE SET disabled = webhook.disabled AND webhook.address = excluded.address,
                                     address = excluded.address",
};

/// topic, tenant, webhook.
pub(crate) const SUBSCRIBE: Sql = Sql {
    columns: "ttt",
    text: "
    INSERT INTO subscription (topic, tenant, webhook)
    SELECT v.column1, v.column2, v.column3 FROM {rows} WHERE v.column1 IS NOT NULL ON CONFLICT DO NOTHING",
};

/// Webhooks without a subscription are gone.
pub(crate) const DROP_WEBHOOKS: Sql =
    Sql { columns: "", text: "DELETE FROM webhook WHERE name NOT IN (SELECT s.webhook FROM subscription s)" };

/// What a webhook that is gone or disabled was to be told.
pub(crate) const BURY_UNADDRESSED: Sql = Sql {
    columns: "",
    text: "
    UPDATE outbox SET state = 'dead', failure = CASE WHEN webhook IN (SELECT w.name FROM webhook w) THEN 'gone'
                                                     ELSE 'removed' END
    WHERE state = 'due' AND webhook NOT IN (SELECT w.name FROM webhook w WHERE NOT w.disabled)",
};

/// The list is another one from here on.
pub(crate) const SUBSCRIPTIONS_CHANGED: Sql =
    Sql { columns: "", text: "UPDATE audit_head SET subscriptions = subscriptions + 1" };

/// webhook, how many, for how long: what is due, for one process; each claim is an attempt.
pub(crate) const CLAIM_DUE: Sql = Sql {
    columns: "tii",
    text: "
    UPDATE outbox SET attempts = attempts + 1, next_at = {now} + (SELECT MAX(v.column3) FROM {rows})
    WHERE (event, webhook) IN (SELECT o.event, o.webhook FROM {rows} CROSS JOIN outbox o
                               WHERE o.webhook = v.column1 AND o.state = 'due' AND o.next_at <= {now}
                               ORDER BY o.next_at, o.event LIMIT (SELECT MAX(v.column2) FROM {rows}))
    RETURNING event, topic, approval, created_at, attempts,
              (SELECT a.body FROM audit_event a WHERE a.execution_id = outbox.execution AND a.id = outbox.event)",
};

/// event, webhook: it was taken, or nobody needs it any more.
pub(crate) const TOLD: Sql = Sql {
    columns: "tt",
    text: "
    DELETE FROM outbox WHERE (event, webhook) IN (SELECT v.column1, v.column2 FROM {rows}) RETURNING event",
};

/// event, webhook, the attempt that failed, `due` or `dead`, how long from now, why.
pub(crate) const PUT_OFF: Sql = Sql {
    columns: "ttitit",
    text: "
    UPDATE outbox SET state = v.column4, next_at = {now} + v.column5, failure = v.column6 FROM {rows}
    WHERE outbox.event = v.column1 AND outbox.webhook = v.column2 AND outbox.attempts = v.column3
          AND outbox.state = 'due'",
};

/// webhook: its receiver said that it is gone.
pub(crate) const DISABLE: Sql = Sql {
    columns: "t",
    text: "UPDATE webhook SET disabled = TRUE FROM {rows} WHERE webhook.name = v.column1 AND NOT webhook.disabled",
};

/// event or all, webhook or all: what is dead is due again, if there is anybody to tell -> its webhook.
pub(crate) const REVIVE: Sql = Sql {
    columns: "tt",
    text: "
    UPDATE outbox SET state = 'due', attempts = 0, next_at = {now}, failure = NULL FROM {rows}
    WHERE outbox.state = 'dead' AND outbox.webhook IN (SELECT w.name FROM webhook w)
          AND (v.column1 IS NULL OR outbox.event = v.column1) AND (v.column2 IS NULL OR outbox.webhook = v.column2)
    RETURNING outbox.webhook",
};

/// webhook: it is told again.
pub(crate) const ENABLE: Sql = Sql {
    columns: "t",
    text: "UPDATE webhook SET disabled = FALSE FROM {rows} WHERE webhook.name = v.column1 AND webhook.disabled",
};

/// event or all, webhook or all: forgets what is dead.
pub(crate) const DROP_DEAD: Sql = Sql {
    columns: "tt",
    text: "
    DELETE FROM outbox
    WHERE (event, webhook) IN (SELECT o.event, o.webhook FROM {rows} CROSS JOIN outbox o
                               WHERE o.state = 'dead' AND (v.column1 IS NULL OR o.event = v.column1)
                                     AND (v.column2 IS NULL OR o.webhook = v.column2))
    RETURNING webhook",
};

/// age: what has been dead for so long, so many at a time.
pub(crate) const ERASE_DEAD: Sql = Sql {
    columns: "i",
    text: "
    DELETE FROM outbox
    WHERE (event, webhook) IN (SELECT o.event, o.webhook FROM {rows} CROSS JOIN outbox o
                               WHERE o.state = 'dead' AND o.created_at <= {now} - v.column1
                               ORDER BY o.created_at LIMIT 256)
    RETURNING event",
};

/// how many may be dead: the oldest beyond that, so many at a time.
pub(crate) const ERASE_SURPLUS: Sql = Sql {
    columns: "i",
    text: "
    DELETE FROM outbox
    WHERE (event, webhook) IN (SELECT o.event, o.webhook FROM outbox o
                               WHERE o.state = 'dead' AND o.created_at <
                                     (SELECT d.created_at FROM outbox d WHERE d.state = 'dead' ORDER BY d.created_at DESC
                                      LIMIT 1 OFFSET (SELECT MAX(v.column1) - 1 FROM {rows}))
                               ORDER BY o.created_at LIMIT 256)
    RETURNING event",
};

/// $2 webhook: whether anything is due.
#[cfg(feature = "http")]
pub(crate) const IS_DUE: &str =
    "SELECT o.attempts FROM outbox o WHERE o.webhook = $2 AND o.state = 'due' AND o.next_at <= {now} LIMIT 1";

/// $2 webhook, $3 state, $4 how many: the oldest first.
#[cfg(feature = "cli")]
pub(crate) const OUTBOX: &str = "
    SELECT o.event, o.webhook, o.topic, o.tenant, o.execution, o.approval, o.created_at, o.state, o.attempts, o.next_at,
           o.failure
    FROM outbox o WHERE (CAST($2 AS TEXT) IS NULL OR o.webhook = $2) AND (CAST($3 AS TEXT) IS NULL OR o.state = $3)
    ORDER BY o.created_at, o.event, o.webhook LIMIT $4";

/// How many are due, and how many are dead; when the oldest that is due was written.
pub(crate) const OUTBOX_COUNTS: &str = "
    SELECT COUNT(CASE WHEN o.state = 'due' THEN 1 END), COUNT(CASE WHEN o.state = 'dead' THEN 1 END),
           MIN(CASE WHEN o.state = 'due' THEN o.created_at END)
    FROM outbox o";
