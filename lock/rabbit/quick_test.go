//go:build !brokers

package rabbit_test

// thorough is described where it is true.
const thorough = false
