//! What claims say of an actor.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Auth, AuthFailure, KeyFile, Signer, block, claims, open, seconds};
use crate::actor::{Actor, ActorKind, Identity, Party};
use crate::testing::START;

const MAPPED: &str = r#"
algorithms = ["EdDSA"]
required_scopes = ["call"]
approver_clients = ["desk-ui"]
[auth.issuers.claims]
kind = "https://i.example/kind"
tenant = "/org/id"
roles = "/realm_access/roles"
scopes = "scp"
name = "nickname"
attributes = { level = "/org/level", mail = "email", slash = "/a~1b" }
"#;

const FIXED: &str = "algorithms = [\"EdDSA\"]\ntenant = \"acme\"\nkind = \"user\"\napprover_clients = [\"desk-ui\"]";

struct World {
    auth: Auth,
    signer: Signer,
}

impl World {
    async fn new(settings: &str) -> Self {
        let signer = Signer::ed("one", 1);
        let keys = KeyFile::new(&[signer.jwk()]);
        Self { auth: open(&block(&keys.place(), settings)).await.unwrap(), signer }
    }

    async fn take(&self, changes: Value) -> Result<super::Credential, AuthFailure> {
        self.auth.take(&self.signer.sign(&claims(&changes))).await
    }

    async fn is_person(&self, changes: Value) -> bool {
        self.take(changes).await.unwrap().person
    }
}

fn mapped() -> Value {
    json!({
        "https://i.example/kind": "service", "org": {"id": "acme", "level": 3}, "realm_access": {"roles": ["ops", "dev"]},
        "scp": "call  read", "nickname": "Dana", "email": "d@i.example", "a/b": [true], "azp": "agent-7",
        "act": {"sub": "agent", "iss": "https://a.example", "act": {"sub": "scheduler"}},
        "roles": "not these", "tenant": "not this", "kind": "user",
    })
}

fn but(name: &str, value: Value) -> Value {
    let mut all = mapped();
    all[name] = value;
    all
}

#[tokio::test]
async fn the_configuration_says_which_claim_says_what() {
    let taken = World::new(MAPPED).await.take(mapped()).await.unwrap();
    let actor = Actor {
        issuer: Some("https://i.example".into()),
        name: Some("Dana".into()),
        roles: vec!["ops".into(), "dev".into()],
        scopes: vec!["call".into(), "read".into()],
        attributes: json!({"level": 3, "mail": "d@i.example", "slash": [true]}).as_object().unwrap().clone(),
        chain: vec![
            Party { issuer: Some("https://a.example".into()), id: "agent".into() },
            Party { issuer: None, id: "scheduler".into() },
        ],
        ..Actor::new(ActorKind::Service, "dana")
    };
    assert_eq!(taken.identity, Identity::new(actor).tenant("acme").client("agent-7"));
    // With the leeway: when this token would be refused.
    assert_eq!((taken.person, taken.expires), (false, Some(START.plus(Duration::from_mins(11)))));
    assert!(!taken.is_expired(START.plus(Duration::from_secs(659))));
    assert!(taken.is_expired(START.plus(Duration::from_mins(11))));
}

#[tokio::test]
async fn what_is_not_mapped_comes_from_the_standard_claims() {
    let world = World::new(FIXED).await;
    let changes = json!({"scope": "a b", "name": "Dana", "client_id": "c", "roles": ["root"], "exp": seconds(1)});
    let taken = world.take(changes).await.unwrap();
    let actor = Actor {
        name: Some("Dana".into()),
        scopes: vec!["a".into(), "b".into()],
        ..Actor::user("dana").issuer("https://i.example")
    };
    assert_eq!(taken.identity, Identity::new(actor).tenant("acme").client("c"));
    let bare = world.take(json!({})).await.unwrap();
    assert_eq!(bare.identity, Identity::new(Actor::user("dana").issuer("https://i.example")).tenant("acme"));
}

#[tokio::test]
async fn a_claim_that_cannot_be_read_as_configured_refuses_the_token() {
    let world = World::new(MAPPED).await;
    for (name, value, class) in [
        ("https://i.example/kind", json!("person"), "bad_claims"),
        ("https://i.example/kind", json!(["user"]), "bad_claims"),
        ("https://i.example/kind", json!(null), "bad_claims"),
        ("org", json!({}), "bad_claims"),
        ("org", json!({"id": ""}), "bad_claims"),
        ("org", json!({"id": 5}), "bad_claims"),
        ("org", json!({"id": null}), "bad_claims"),
        ("org", json!({"id": "a\nb"}), "bad_claims"),
        ("realm_access", json!({"roles": {"ops": true}}), "bad_claims"),
        ("realm_access", json!({"roles": ["ops", 5]}), "bad_claims"),
        ("realm_access", json!({"roles": 5}), "bad_claims"),
        ("scp", json!(["call", 5]), "bad_claims"),
        ("scp", json!({"call": true}), "bad_claims"),
        ("scp", json!("call,read"), "missing_scope"),
        ("scp", json!("CALL"), "missing_scope"),
        ("scp", json!([]), "missing_scope"),
        ("scp", json!(null), "missing_scope"),
        ("azp", json!(["agent-7"]), "bad_claims"),
        ("azp", json!(""), "bad_claims"),
        ("client_id", json!("agent-8"), "bad_claims"),
        ("act", json!("agent"), "bad_claims"),
        ("act", json!(null), "bad_claims"),
        ("act", json!({}), "bad_claims"),
        ("act", json!({"sub": ""}), "bad_claims"),
        ("act", json!({"sub": "a\u{7}"}), "bad_claims"),
        ("act", json!({"sub": "a", "iss": 5}), "bad_claims"),
        ("act", json!({"sub": "a", "act": {"sub": 5}}), "bad_claims"),
    ] {
        // `claims` takes a null for a missing member, so that one is put in here.
        let mut all = claims(&but(name, value.clone()));
        all[name] = value;
        let class_of = world.auth.class(&world.signer.sign(&all)).await;
        assert_eq!(class_of, class, "{name}: {}", all[name]);
    }
    // What only people read, or what says nothing, is no reason.
    for (name, value) in
        [("nickname", json!(5)), ("email", json!(null)), ("realm_access", json!({})), ("scp", json!(["call"]))]
    {
        assert!(world.take(but(name, value.clone())).await.is_ok(), "{name}: {value}");
    }
    let one_role = world.take(but("realm_access", json!({"roles": "two words"}))).await.unwrap();
    assert_eq!(one_role.identity.actor().unwrap().roles, ["two words"]);
}

#[tokio::test]
async fn as_many_may_act_for_one_another_as_can_be_recorded() {
    let world = World::new(FIXED).await;
    let chain = |length: usize| {
        let innermost = json!({"sub": "a0"});
        (1..length).fold(innermost, |act, n| json!({"sub": format!("a{n}"), "act": act}))
    };
    let taken = world.take(json!({"act": chain(8)})).await.unwrap();
    let ids: Vec<_> = taken.identity.actor().unwrap().chain.iter().map(|it| it.id.clone()).collect();
    assert_eq!(ids, ["a7", "a6", "a5", "a4", "a3", "a2", "a1", "a0"]);
    assert_eq!(world.take(json!({"act": chain(9)})).await.unwrap_err(), AuthFailure::BadClaims);
}

#[tokio::test]
async fn apr_4_a_person_is_a_user_for_whom_nobody_acts_through_a_client_that_people_use() {
    let world = World::new(FIXED).await;
    assert!(world.is_person(json!({"azp": "desk-ui"})).await);
    assert!(world.is_person(json!({"client_id": "desk-ui"})).await);
    assert!(!world.is_person(json!({})).await);
    assert!(!world.is_person(json!({"azp": "agent-7"})).await);
    assert!(!world.is_person(json!({"azp": "desk-ui", "act": {"sub": "agent"}})).await);
    let world = World::new(MAPPED).await;
    let people = json!({"https://i.example/kind": "user", "org": {"id": "acme"}, "scp": "call", "azp": "desk-ui"});
    assert!(world.is_person(people.clone()).await);
    for kind in ["service", "automation", "anonymous"] {
        let mut other = people.clone();
        other["https://i.example/kind"] = kind.into();
        assert!(!world.is_person(other).await, "{kind}");
    }
    // Without clients that people use, nobody is one.
    let world = World::new(&FIXED.replace("approver_clients", "required_scopes").replace("desk-ui", "s")).await;
    assert!(!world.is_person(json!({"azp": "desk-ui", "scope": "s"})).await);
}

#[tokio::test]
async fn the_client_may_be_another_claim() {
    let world = World::new(&format!("{FIXED}\nclaims.client = \"/app/name\"")).await;
    let taken = world.take(json!({"azp": "x", "client_id": "y", "app": {"name": "desk-ui"}})).await.unwrap();
    assert!(taken.person);
    assert_eq!(taken.identity.client.map(|it| it.0), Some("desk-ui".into()));
}
