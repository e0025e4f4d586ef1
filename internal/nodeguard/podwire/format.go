package podwire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
)

// Format is an encoding of Kubernetes objects.
type Format string

// The formats that kubelets ask for.
const (
	JSON     Format = "json"
	Protobuf Format = "protobuf"
)

// FormatOf returns the format of a Content-Type.
func FormatOf(contentType string) (Format, error) {
	media, _, err := mime.ParseMediaType(contentType)
	switch {
	case err != nil:
		return "", fmt.Errorf("content type %q: %w", contentType, err)
	case media == "application/json":
		return JSON, nil
	case media == "application/vnd.kubernetes.protobuf":
		return Protobuf, nil
	default:
		return "", fmt.Errorf("content type %q: only JSON and Protobuf are supported", contentType)
	}
}

// Decode decodes a pod, to look at it.
func Decode(f Format, raw []byte) (*corev1.Pod, error) {
	p := &corev1.Pod{}
	var err error
	if f == JSON {
		err = json.Unmarshal(raw, p)
	} else {
		err = p.Unmarshal(raw)
	}
	if err != nil {
		return nil, fmt.Errorf("decode a pod in %s: %w", f, err)
	}
	return p, nil
}

// Encode encodes a pod.
func Encode(f Format, p *corev1.Pod) ([]byte, error) {
	if f == JSON {
		p.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
		return json.Marshal(p)
	}
	return p.Marshal()
}

// magic begins each Protobuf object of Kubernetes that is not part of another one. A runtime.Unknown follows.
const magic = "k8s\x00"

// Fields of runtime.Unknown, PodList and WatchEvent (their generated.proto).
const (
	unknownRaw   = 2
	listItems    = 2
	eventType    = 1
	eventObject  = 2
	extensionRaw = 1
)

var errMagic = errors.New("the object does not begin with the mark of Kubernetes Protobuf")

// unwrap returns the object of a runtime.Unknown.
func unwrap(object []byte) ([]byte, error) {
	rest, ok := bytes.CutPrefix(object, []byte(magic))
	if !ok {
		return nil, errMagic
	}
	return lastBytes(rest, unknownRaw)
}

// rewrap replaces the object of a runtime.Unknown.
func rewrap(object, raw []byte) ([]byte, error) {
	rest, ok := bytes.CutPrefix(object, []byte(magic))
	if !ok {
		return nil, errMagic
	}
	out, replaced := []byte(magic), false
	err := eachField(rest, func(number protowire.Number, whole, _ []byte) {
		if number == unknownRaw {
			whole, replaced = appendBytes(nil, unknownRaw, raw), true
		}
		out = append(out, whole...)
	})
	if !replaced {
		out = appendBytes(out, unknownRaw, raw)
	}
	return out, err
}

// wrapPod makes a Protobuf object of a pod.
func wrapPod(raw []byte) []byte {
	kind := appendBytes(appendBytes(nil, 1, []byte("v1")), 2, []byte("Pod")) // runtime.TypeMeta
	return append([]byte(magic), appendBytes(appendBytes(nil, 1, kind), unknownRaw, raw)...)
}

func appendBytes(to []byte, number protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(to, number, protowire.BytesType), value)
}

// bytesFields returns the values of all fields of a number, which must be of type bytes.
func bytesFields(message []byte, wanted protowire.Number) (values [][]byte, err error) {
	malformed := false
	err = eachField(message, func(number protowire.Number, _, value []byte) {
		if number == wanted {
			values, malformed = append(values, value), malformed || value == nil
		}
	})
	if err == nil && malformed {
		err = fmt.Errorf("parse Protobuf: field %d is not of type bytes", wanted)
	}
	return values, err
}

// lastBytes returns the value of the last field of a number, which is the one that counts.
func lastBytes(message []byte, number protowire.Number) ([]byte, error) {
	values, err := bytesFields(message, number)
	if err != nil || len(values) == 0 {
		return nil, err
	}
	return values[len(values)-1], nil
}

// eachField calls do with each field of a message: the bytes of the whole field, and its value if that is of type bytes, else nil.
func eachField(message []byte, do func(number protowire.Number, whole, value []byte)) error {
	for len(message) > 0 {
		number, kind, tag := protowire.ConsumeTag(message)
		if tag < 0 {
			return fmt.Errorf("parse Protobuf: %w", protowire.ParseError(tag))
		}
		size := protowire.ConsumeFieldValue(number, kind, message[tag:])
		if size < 0 {
			return fmt.Errorf("parse Protobuf: %w", protowire.ParseError(size))
		}
		var value []byte
		if kind == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(message[tag:])
		}
		do(number, message[:tag+size], value)
		message = message[tag+size:]
	}
	return nil
}
