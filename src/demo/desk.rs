//! The desk's data: in memory, the same at every start, and never another tenant's.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use schemars::JsonSchema;
use serde::Serialize;

use super::{ACME, GLOBEX};

/// The desk of one tenant: the application context of the demo. Clones share what happens at the desk.
#[derive(Clone, Debug)]
pub struct Desk {
    tenant: Arc<str>,
    shop: Arc<Shop>,
}

/// The data of all tenants.
#[derive(Debug)]
struct Shop {
    customers: Vec<(&'static str, Customer)>,
    orders: Vec<(&'static str, Order)>,
    refunds: Mutex<Refunds>,
    outbox: AtomicUsize,
}

/// A customer of the shop.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Customer {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) city: String,
    /// Personal: never leaves the desk.
    pub(super) email: String,
    /// Personal: never leaves the desk.
    pub(super) phone: String,
}

/// An order of a customer. Money is in cents.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Order {
    pub(super) id: String,
    pub(super) customer_id: String,
    pub(super) item: String,
    pub(super) total_cents: u32,
    pub(super) status: Status,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    Delivered,
    Shipped,
    Cancelled,
}

/// Money that went back: sums, for a desk that is open for long.
#[derive(Debug, Default)]
struct Refunds {
    count: usize,
    /// By order, in cents.
    paid: HashMap<String, u32>,
}

/// The archive does not answer. What it says is for the desk's own log: callers never see it.
#[derive(Debug, thiserror::Error)]
#[error("archive db-7.internal:5432 refused user `desk`: password `hunter2` has expired")]
pub(super) struct ArchiveDown;

/// The order that is in the archive.
const ARCHIVED: &str = "ord_13";

impl Default for Desk {
    fn default() -> Self {
        let shop = Shop {
            customers: customers(),
            orders: orders(),
            refunds: Mutex::default(),
            outbox: AtomicUsize::default(),
        };
        Self { tenant: ACME.into(), shop: Arc::new(shop) }
    }
}

impl Desk {
    /// The same shop's desk for another tenant.
    #[must_use]
    pub fn of_tenant(&self, tenant: &str) -> Self {
        Self { tenant: tenant.into(), shop: Arc::clone(&self.shop) }
    }

    /// How much went back to customers of all tenants, in cents: for tests that count effects.
    pub fn refunded_cents(&self) -> u64 {
        self.refunds(|all| all.paid.values().map(|it| u64::from(*it)).sum())
    }

    /// How many messages went out: for tests that count effects.
    pub fn messages_sent(&self) -> usize {
        self.shop.outbox.load(Ordering::Relaxed)
    }

    pub(super) async fn customers(&self, query: &str) -> Vec<Customer> {
        round_trip().await;
        let found = self.own(&self.shop.customers).filter(|it| contains(&[&it.id, &it.name, &it.city], query));
        found.cloned().collect()
    }

    pub(super) async fn customer(&self, id: &str) -> Option<Customer> {
        round_trip().await;
        self.own(&self.shop.customers).find(|it| it.id == id).cloned()
    }

    pub(super) async fn orders(&self, query: &str) -> Vec<Order> {
        round_trip().await;
        self.own(&self.shop.orders)
            .filter(|it| contains(&[&it.id, &it.item, &it.customer_id], query))
            .cloned()
            .collect()
    }

    pub(super) async fn order(&self, id: &str) -> Result<Option<Order>, ArchiveDown> {
        round_trip().await;
        if id == ARCHIVED {
            return Err(ArchiveDown);
        }
        Ok(self.own(&self.shop.orders).find(|it| it.id == id).cloned())
    }

    pub(super) fn refunded(&self, order: &str) -> u32 {
        self.refunds(|all| all.paid.get(order).copied().unwrap_or_default())
    }

    /// Pays back, if so much is left of the order: the number of the refund, and all that went back of the order.
    pub(super) fn refund(&self, order: &Order, cents: u32) -> Option<(usize, u32)> {
        self.refunds(|all| {
            let before = all.paid.get(&order.id).copied().unwrap_or_default();
            let after = before.checked_add(cents).filter(|it| *it <= order.total_cents)?;
            all.paid.insert(order.id.clone(), after);
            all.count += 1;
            Some((all.count, after))
        })
    }

    /// Sends a message: its number.
    pub(super) async fn send(&self) -> usize {
        round_trip().await;
        self.shop.outbox.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Isolation is the application's own business, and it does not rely on anybody's policy for it.
    fn own<'a, T>(&self, all: &'a [(&'static str, T)]) -> impl Iterator<Item = &'a T> {
        let tenant = Arc::clone(&self.tenant);
        all.iter().filter(move |(owner, _)| **owner == *tenant).map(|(_, it)| it)
    }

    fn refunds<T>(&self, work: impl FnOnce(&mut Refunds) -> T) -> T {
        work(&mut self.shop.refunds.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Where a real desk would wait for its database.
async fn round_trip() {
    tokio::task::yield_now().await;
}

fn contains(texts: &[&str], query: &str) -> bool {
    let query = query.to_lowercase();
    texts.iter().any(|it| it.to_lowercase().contains(&query))
}

fn customers() -> Vec<(&'static str, Customer)> {
    let customer = |tenant, id: &str, name: &str, city: &str, email: &str, phone: &str| {
        let (id, name, city) = (id.into(), name.into(), city.into());
        (tenant, Customer { id, name, city, email: email.into(), phone: phone.into() })
    };
    vec![
        customer(ACME, "cus_7", "Mina Okafor", "Lisbon", "mina@example.test", "+351 555 0107"),
        customer(ACME, "cus_8", "Jonas Weber", "Bremen", "jonas@example.test", "+49 555 0108"),
        customer(ACME, "cus_9", "Ana Duarte", "Porto", "ana@example.test", "+351 555 0109"),
        customer(GLOBEX, "cus_70", "Lea Brandt", "Vienna", "lea@example.test", "+43 555 0170"),
    ]
}

fn orders() -> Vec<(&'static str, Order)> {
    let order = |tenant, id: &str, customer: &str, item: &str, total_cents, status| {
        (tenant, Order { id: id.into(), customer_id: customer.into(), item: item.into(), total_cents, status })
    };
    vec![
        order(ACME, "ord_42", "cus_7", "Reading lamp, brass", 129_900, Status::Delivered),
        order(ACME, "ord_43", "cus_8", "Desk lamp, black", 8_900, Status::Shipped),
        order(ACME, "ord_44", "cus_8", "Office chair", 45_000, Status::Cancelled),
        order(ACME, "ord_7", "cus_9", "Dining table, oak", 620_000, Status::Delivered),
        order(GLOBEX, "ord_90", "cus_70", "Floor lamp, chrome", 24_900, Status::Delivered),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_desk_finds_its_own_tenants_data_only() {
        let (acme, globex) = (Desk::default(), Desk::default().of_tenant(GLOBEX));
        let ids = |found: Vec<Order>| found.into_iter().map(|it| it.id).collect::<Vec<_>>();
        assert_eq!(ids(acme.orders("LAMP").await), ["ord_42", "ord_43"]);
        assert_eq!(ids(globex.orders("lamp").await), ["ord_90"]);
        assert!(acme.customer("cus_70").await.is_none() && globex.customer("cus_7").await.is_none());
    }

    #[tokio::test]
    async fn no_more_goes_back_than_was_paid() {
        let desk = Desk::default();
        let order = desk.order("ord_43").await.unwrap().unwrap();
        assert_eq!(desk.refund(&order, 8_000), Some((1, 8_000)));
        assert_eq!(desk.refund(&order, 901), None);
        assert_eq!(desk.refund(&order, 900), Some((2, 8_900)));
        assert_eq!(desk.refund(&order, u32::MAX), None);
        assert_eq!(desk.refunded_cents(), 8_900);
    }
}
