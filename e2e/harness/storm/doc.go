// Package storm plays the accident that Breakwater is for, and judges what came of it: it deploys an
// application over several cells, removes its pods in every way that the API offers, and records from the
// cells' own watch streams whether the floor held. The demo, the e2e suite and the benchmarks share it.
//
// Nothing here knows of Breakwater's objects. Whether the floor held is read from pods alone.
package storm
