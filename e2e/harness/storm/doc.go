// Package storm reproduces the accident that Breakwater protects against, and judges the result. It deploys an application over several
// cells, removes its pods in every way that the API offers, and records from the cells' own watch streams whether the floor held. The
// demo, the e2e suite and the benchmarks share it.
//
// This package does not use Breakwater's objects. It determines from pods alone whether the floor held.
package storm
