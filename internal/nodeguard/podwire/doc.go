// Package podwire edits lists and watch streams of pods as API servers send them, in JSON and in Protobuf. It never decodes and encodes an
// object: a kubelet that is newer than this program loses no field.
package podwire
