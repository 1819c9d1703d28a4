//! Tells others what happened to approvals and executions: signed webhooks, from an outbox in the store.

mod settings;

pub use self::settings::NotificationSettings;
