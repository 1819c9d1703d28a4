//! Who sits at the terminal, for the record of decisions (APR-4).

/// `cli:` and the name of the operating system's user.
///
/// The kernel's word counts before the environment's, which anybody may set.
pub(super) fn issuer() -> String {
    format!("cli:{}", kernel_user().or_else(environment_user).unwrap_or_else(|| "unknown".into()))
}

#[cfg(target_os = "linux")]
fn kernel_user() -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;

    let uid = std::fs::metadata("/proc/self").ok()?.uid().to_string();
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    Some(name_of(&uid, &users).unwrap_or(&uid).to_owned())
}

#[cfg(not(target_os = "linux"))]
fn kernel_user() -> Option<String> {
    None
}

#[cfg_attr(not(any(target_os = "linux", test)), expect(dead_code, reason = "for the kernel's numbers"))]
fn name_of<'a>(uid: &str, users: &'a str) -> Option<&'a str> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, _, id) = (fields.next()?, fields.next()?, fields.next()?);
        (id == uid && !name.is_empty()).then_some(name)
    })
}

#[expect(clippy::disallowed_methods, reason = "the environment is read by the command line only")]
fn environment_user() -> Option<String> {
    ["USER", "LOGNAME", "USERNAME"].iter().find_map(|it| std::env::var(it).ok()).filter(|it| !it.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_becomes_the_name_that_the_system_has_for_it() {
        let users = "root:x:0:0::/root:/bin/sh\nbroken\nada:x:1000:1000::/home/ada:/bin/sh\n";
        assert_eq!(name_of("1000", users), Some("ada"));
        assert_eq!(name_of("100", users), None);
    }
}
