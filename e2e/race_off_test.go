//go:build !race

package e2e

// raceBuild says that the tests were built with -race, and berth is to be too.
const raceBuild = false
