//! Strict JSON, normalisation, RFC 8785 bytes, SHA-256.
