//! What looks like a secret is masked wherever the engine itself shows or logs something. What runs, what is hashed and
//! what an application answers is never touched by it.

mod names;
mod text;

use serde_json::Value;

pub(crate) use names::is_secret;
pub(crate) use text::text;

/// What stands in place of a secret.
pub(crate) const MASK: &str = "[masked]";

/// Members in which lists keep what something is called, and what it is: `{"name": "Authorization", "value": ".."}`.
const NAMES: [&str; 3] = ["name", "key", "header"];

/// Masks members whose names say that they are secrets, on every level, and secrets within texts. Linear in the size.
pub(crate) fn mask(value: &mut Value) {
    match value {
        Value::Object(members) => {
            let named = NAMES.iter().filter_map(|it| members.get(*it)?.as_str()).any(is_secret);
            for (name, it) in members.iter_mut() {
                if is_worth_it(it) && (is_secret(name) || (named && name == "value")) {
                    *it = Value::from(MASK);
                } else {
                    mask(it);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(mask),
        Value::String(shown) => {
            if let std::borrow::Cow::Owned(masked) = text(shown) {
                *shown = masked;
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Whether a secret can be in there: that something is required is none.
fn is_worth_it(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) => false,
        Value::String(text) => !text.is_empty(),
        Value::Number(_) | Value::Array(_) | Value::Object(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn masked(mut value: Value) -> Value {
        mask(&mut value);
        value
    }

    #[test]
    fn members_are_masked_on_every_level_and_nothing_else() {
        let value = json!({
            "user": "dana", "password": "hunter2", "pin": {"apiKey": ["a", "b"], "maxTokens": 512},
            "headers": [{"name": "Authorization", "value": "x"}, {"name": "Accept", "value": "text/plain"}],
            "callback": "https://dana:hunter2@host.test/?page=2&access_token=abc#top", "tokens": 7,
            "monkey": "bananas", "issue_key": "ABC-1", "passwordRequired": true, "secret": null, "token": "",
        });
        let expected = json!({
            "user": "dana", "password": MASK, "pin": {"apiKey": MASK, "maxTokens": 512},
            "headers": [{"name": "Authorization", "value": MASK}, {"name": "Accept", "value": "text/plain"}],
            "callback": "https://[masked]@host.test/?page=2&access_token=[masked]#top", "tokens": MASK,
            "monkey": "bananas", "issue_key": "ABC-1", "passwordRequired": true, "secret": null, "token": "",
        });
        assert_eq!(masked(value), expected);
        assert_eq!(masked(expected.clone()), expected, "masking twice is masking once");
    }
}
