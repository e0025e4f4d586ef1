package webhook

import "reflect"

// Exchange is the name of what replicas exchange.
var Exchange = exchange

// ExchangeName lets tests name other exchanges.
func ExchangeName(version int, types ...reflect.Type) string { return exchangeName(version, types...) }

// OwnerOf lets tests choose replicas that own a key.
func OwnerOf(key string, replicas []string) string { return ownerOf(key, replicas) }
