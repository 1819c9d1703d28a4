# What is there to run
default:
    @just --list

# The whole story, on a temporary database
demo *arguments:
    cargo run --quiet -- demo {{arguments}}

# The command line, on ./countersign.db
run *arguments:
    cargo run --quiet -- {{arguments}}

# An application that embeds the engine
embed:
    cargo run --quiet --example embed

# Orders that stay with their tenant
tenants:
    cargo run --quiet --example tenants

# Tests
test *arguments:
    cargo test {{arguments}}

# Tests, taking what they see now for right: read the difference before you commit it
bless *arguments:
    INSTA_UPDATE=always cargo test {{arguments}}

# Format, then every lint
lint:
    cargo fmt
    cargo clippy --all-targets --all-features -- -D warnings

# Benchmarks
bench *arguments:
    cargo bench {{arguments}}

# The documentation, in a browser
doc:
    cargo doc --no-deps --all-features --open

# Everything that must hold before a change is done
ci:
    .ci/run
