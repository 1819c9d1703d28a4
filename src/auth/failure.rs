//! Why a credential was not taken.

/// The class of what is wrong with a credential: the reason of `auth.failed`. A closed set; it never shows a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, thiserror::Error)]
pub(crate) enum AuthFailure {
    /// Not one `Bearer` credential, or not in the form of a token: more than one header, another scheme, too long, a JWT
    /// whose header cannot be read or has critical members (`crit`).
    #[error("malformed")]
    Malformed,
    /// No token that is configured, nor one that an issuer could have signed.
    #[error("unknown_token")]
    UnknownToken,
    /// Its time is over.
    #[error("expired")]
    Expired,
    /// Its time has not come.
    #[error("not_yet_valid")]
    NotYetValid,
    /// `iss` is not a configured issuer.
    #[error("wrong_issuer")]
    WrongIssuer,
    /// `aud` does not name this server.
    #[error("wrong_audience")]
    WrongAudience,
    /// `typ` says that it is something else than an access token.
    #[error("wrong_type")]
    WrongType,
    /// The signature is not the key's.
    #[error("bad_signature")]
    BadSignature,
    /// The issuer has no such key, or it cannot be told which one is meant.
    #[error("unknown_key")]
    UnknownKey,
    /// `alg` is not allowed, or not the key's.
    #[error("bad_algorithm")]
    BadAlgorithm,
    /// A claim is missing or not what it must be.
    #[error("bad_claims")]
    BadClaims,
    /// A scope that is required is missing.
    #[error("missing_scope")]
    MissingScope,
    /// The issuer's keys could not be had yet.
    #[error("keys_unavailable")]
    KeysUnavailable,
}

impl AuthFailure {
    /// Every class, in the order of the declaration.
    pub(crate) const ALL: [Self; 13] = [
        Self::Malformed,
        Self::UnknownToken,
        Self::Expired,
        Self::NotYetValid,
        Self::WrongIssuer,
        Self::WrongAudience,
        Self::WrongType,
        Self::BadSignature,
        Self::UnknownKey,
        Self::BadAlgorithm,
        Self::BadClaims,
        Self::MissingScope,
        Self::KeysUnavailable,
    ];
}
