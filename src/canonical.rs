//! Strict JSON, normalisation, RFC 8785 bytes, SHA-256.
pub(crate) fn input_hash(_capability: &crate::CapabilityId, _canonical: &str) -> String {
    todo!()
}
