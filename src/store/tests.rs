//! The rules of document 5 on a real file. One test, one rule.
