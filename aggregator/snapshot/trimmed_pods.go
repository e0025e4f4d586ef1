package snapshot

import (
	"bytes"
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// NewTrimmedPods returns a client for pods whose watches drop the fields that no count depends on before they decode a pod. Decoding a whole
// pod takes about 40 KiB of memory, almost all of it for fields that the snapshot drops at once. Pods that are not in Protobuf stay whole.
func NewTrimmedPods(config *rest.Config) (corev1client.PodsGetter, error) {
	config = rest.CopyConfig(config)
	config.GroupVersion, config.APIPath = &corev1.SchemeGroupVersion, "/api"
	config.NegotiatedSerializer = trimmingSerializers{scheme.Codecs.WithoutConversion()}
	client, err := rest.RESTClientFor(config)
	return corev1client.New(client), err
}

// trimmingSerializers trim the pods of watches in Protobuf.
type trimmingSerializers struct{ runtime.NegotiatedSerializer }

// SupportedMediaTypes implements runtime.NegotiatedSerializer.
func (s trimmingSerializers) SupportedMediaTypes() []runtime.SerializerInfo {
	all := slices.Clone(s.NegotiatedSerializer.SupportedMediaTypes())
	for i := range all {
		if all[i].MediaType == runtime.ContentTypeProtobuf {
			stream := *all[i].StreamSerializer
			stream.Serializer = trimmingSerializer{stream.Serializer}
			all[i].StreamSerializer = &stream
		}
	}
	return all
}

// trimmingSerializer trims the pods in the events of a watch.
type trimmingSerializer struct{ runtime.Serializer }

// Decode implements runtime.Decoder. It overwrites the event, which is in a buffer of the watch.
func (s trimmingSerializer) Decode(event []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	trimmed, err := trimEvent(event)
	if err != nil {
		return nil, nil, fmt.Errorf("trim the pod of a watch event: %w", err)
	}
	return s.Serializer.Decode(trimmed, defaults, into)
}

// protobufMagic begins each Protobuf object of Kubernetes that is not part of another one. A runtime.Unknown follows.
const protobufMagic = "k8s\x00"

// podTypeMeta is the TypeMeta of a pod in Protobuf.
const podTypeMeta = "\x0a\x02v1\x12\x03Pod"

// trimEvent trims the pod in a WatchEvent. The numbers of fields are those of generated.proto.
func trimEvent(event []byte) ([]byte, error) {
	return filterFields(event, func(number protowire.Number, value []byte) ([]byte, error) {
		if number != 2 { // object
			return value, nil
		}
		return filterFields(value, func(_ protowire.Number, raw []byte) ([]byte, error) {
			unknown, found := bytes.CutPrefix(raw, []byte(protobufMagic))
			if !found {
				return raw, nil
			}
			trimmed, err := trimUnknown(unknown)
			return raw[:len(protobufMagic)+len(trimmed)], err
		})
	})
}

// trimUnknown trims the object of a runtime.Unknown, if it is a pod.
func trimUnknown(unknown []byte) ([]byte, error) {
	isPod := false
	return filterFields(unknown, func(number protowire.Number, value []byte) ([]byte, error) {
		switch {
		case number == 1: // typeMeta, which API servers encode first
			isPod = string(value) == podTypeMeta
		case number == 2 && isPod: // raw
			return filterFields(value, trimPod)
		}
		return value, nil
	})
}

// trimPod keeps the fields that a reflector, strip, podhealth.FactsOf, latestTime and sizeOf read.
func trimPod(number protowire.Number, value []byte) ([]byte, error) {
	switch number {
	case 1:
		return filterFields(value, trimMetadata)
	case 2: // spec
		return filterFields(value, keepFields(10)) // nodeName
	case 3: // status
		return filterFields(value, keepFields(1, 2, 17)) // phase, conditions, observedGeneration
	default:
		return nil, nil
	}
}

func trimMetadata(number protowire.Number, value []byte) ([]byte, error) {
	switch number {
	case 17: // managedFields
		return nil, nil
	case 12: // annotations
		for _, key := range []string{v1alpha1.AnnotationCriterion, v1alpha1.AnnotationForceDelete, metav1.InitialEventsAnnotationKey} {
			if bytes.Contains(value, []byte(key)) {
				return value, nil
			}
		}
		return nil, nil
	default:
		return value, nil
	}
}

func keepFields(kept ...protowire.Number) fieldFilter {
	return func(number protowire.Number, value []byte) ([]byte, error) {
		if slices.Contains(kept, number) {
			return value, nil
		}
		return nil, nil
	}
}

// fieldFilter returns the part of the value of a field to keep, which begins with the value; nil drops the field.
type fieldFilter = func(number protowire.Number, value []byte) ([]byte, error)

// filterFields filters the fields of a message. It overwrites the message with the result, which is never nil.
func filterFields(message []byte, filter fieldFilter) ([]byte, error) {
	kept := message[:0:len(message)]
	for len(message) > 0 {
		number, kind, tag := protowire.ConsumeTag(message)
		if tag < 0 {
			return nil, protowire.ParseError(tag)
		}
		size := protowire.ConsumeFieldValue(number, kind, message[tag:])
		if size < 0 {
			return nil, protowire.ParseError(size)
		}
		whole := message[:tag+size]
		message = message[tag+size:]
		value := whole[tag:]
		if kind == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(value)
		}
		part, err := filter(number, value)
		switch {
		case err != nil:
			return nil, err
		case part == nil:
		case len(part) == len(value):
			kept = append(kept, whole...)
		default: // a shorter value does not need a longer tag and length, so nothing is overwritten before it is read
			kept = protowire.AppendBytes(protowire.AppendTag(kept, number, protowire.BytesType), part)
		}
	}
	return kept, nil
}
