package webhook

import "reflect"

// Exchange is the name of the exchange between replicas.
var Exchange = exchange

// ExchangeName exposes exchangeName to tests.
func ExchangeName(version int, types ...reflect.Type) string { return exchangeName(version, types...) }

// OwnerOf exposes ownerOf to tests.
func OwnerOf(key string, replicas []string) string { return ownerOf(key, replicas) }
