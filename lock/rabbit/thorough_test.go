//go:build brokers

package rabbit_test

// thorough says that each way, size and moment is tried of which `make test` tries some: see `make test-brokers`.
const thorough = true
