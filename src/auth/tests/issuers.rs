//! Several issuers, and static tokens beside them.

use serde_json::json;

use super::{EVERYTHING, KeyFile, Signer, block, claims, open};
use crate::actor::{Actor, Party};

#[tokio::test]
async fn one_subject_of_two_issuers_is_two_parties_and_each_has_its_own_keys() {
    let (one, two) = (Signer::ed("k", 1), Signer::ed("k", 2));
    let (ones, twos) = (KeyFile::new(&[one.jwk()]), KeyFile::new(&[two.jwk()]));
    let second = block(&twos.place(), EVERYTHING).replace("i.example", "j.example");
    let auth = open(&(block(&ones.place(), EVERYTHING) + &second)).await.unwrap();
    let theirs = claims(&json!({"iss": "https://j.example"}));
    for (signer, claims, issuer) in
        [(&one, claims(&json!({})), "https://i.example"), (&two, theirs.clone(), "https://j.example")]
    {
        let party = auth.take(&signer.sign(&claims)).await.unwrap().identity.actor().map(Actor::party);
        assert_eq!(party, Some(Party { issuer: Some(issuer.into()), id: "dana".into() }));
    }
    assert_eq!(auth.class(&one.sign(&theirs)).await, "bad_signature");
    assert_eq!(auth.class(&two.sign(&claims(&json!({})))).await, "bad_signature");
    assert_eq!(auth.class(&two.sign(&claims(&json!({"iss": "https://k.example"})))).await, "wrong_issuer");
}

#[tokio::test]
async fn static_tokens_and_issuers_are_taken_side_by_side() {
    let signer = Signer::ed("k", 1);
    let keys = KeyFile::new(&[signer.jwk()]);
    let hash = crate::audit::hex(&<sha2::Sha256 as sha2::Digest>::digest(b"csgn_t"));
    let token =
        format!("[[auth.tokens]]\nname = \"t\"\nsha256 = \"{hash}\"\nid = \"nightly\"\nkind = \"automation\"\n");
    let auth = open(&(token + &block(&keys.place(), EVERYTHING))).await.unwrap();
    assert!(!auth.is_empty());
    assert_eq!(auth.take("csgn_t").await.unwrap().identity.actor(), Some(&Actor::automation("nightly")));
    assert_eq!(auth.class("csgn_u").await, "unknown_token");
    assert_eq!(auth.class(&signer.sign(&claims(&json!({})))).await, "taken");
    assert!(open("").await.unwrap().is_empty());
}
