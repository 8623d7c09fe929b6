//go:build !brokers

package rabbit_test

const thorough = false
