package podwire

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// maxFrame limits a watch event. etcd stores no object of more than 1.5 MiB by default, and JSON is larger.
const maxFrame = 32 << 20

// Event is an event of a watch.
type Event struct {
	Type watch.EventType
	// Object is the encoded object: a pod for Added, Modified and Deleted.
	Object []byte
	// frame is the event as it came, to forward it unchanged; nil for a new event.
	frame []byte
}

// Reader reads the events of a watch.
type Reader struct {
	format Format
	from   *bufio.Reader
	json   *json.Decoder
}

// NewReader reads events of the given format.
func NewReader(f Format, from io.Reader) *Reader {
	buffered := bufio.NewReader(from)
	return &Reader{format: f, from: buffered, json: json.NewDecoder(buffered)}
}

// Next returns the next event. The error is io.EOF at the end of the stream.
func (r *Reader) Next() (Event, error) {
	if r.format == JSON {
		return r.nextJSON()
	}
	var size [4]byte
	if _, err := io.ReadFull(r.from, size[:]); err != nil {
		return Event{}, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxFrame {
		return Event{}, fmt.Errorf("watch event of %d bytes, want at most %d", n, maxFrame)
	}
	frame := make([]byte, n)
	if _, err := io.ReadFull(r.from, frame); err != nil {
		return Event{}, io.ErrUnexpectedEOF
	}
	return parseProtobufEvent(frame)
}

func parseProtobufEvent(frame []byte) (Event, error) {
	kind, err := lastBytes(frame, eventType)
	if err != nil {
		return Event{}, fmt.Errorf("parse a watch event: %w", err)
	}
	extension, err := lastBytes(frame, eventObject)
	if err != nil {
		return Event{}, fmt.Errorf("parse a watch event: %w", err)
	}
	e := Event{Type: watch.EventType(kind), frame: frame}
	if e.Object, err = lastBytes(extension, extensionRaw); err != nil {
		return Event{}, fmt.Errorf("parse a watch event: %w", err)
	}
	if e.IsPod() || e.Type == watch.Bookmark {
		if e.Object, err = unwrap(e.Object); err != nil {
			return Event{}, fmt.Errorf("parse a watch event: %w", err)
		}
	}
	return e, nil
}

func (r *Reader) nextJSON() (Event, error) {
	var frame json.RawMessage
	if err := r.json.Decode(&frame); err != nil {
		return Event{}, err
	}
	var e metav1.WatchEvent
	if err := json.Unmarshal(frame, &e); err != nil {
		return Event{}, fmt.Errorf("parse a watch event: %w", err)
	}
	return Event{Type: watch.EventType(e.Type), Object: e.Object.Raw, frame: frame}, nil
}

// IsPod reports whether the event's object is a pod that appeared, changed or disappeared.
func (e Event) IsPod() bool {
	return e.Type == watch.Added || e.Type == watch.Modified || e.Type == watch.Deleted
}

// Encode returns the event as it is sent: unchanged if it was read from a watch. Its type and object must not be changed then.
func (e Event) Encode(f Format) ([]byte, error) {
	frame := e.frame
	if f == JSON {
		if frame == nil {
			object, err := withKind(e.Object)
			if err != nil {
				return nil, err
			}
			frame = append(append(fmt.Appendf(nil, `{"type":%q,"object":`, e.Type), object...), '}')
		}
		return append(frame[:len(frame):len(frame)], '\n'), nil
	}
	if frame == nil {
		extension := appendBytes(nil, extensionRaw, wrapPod(e.Object))
		frame = appendBytes(appendBytes(nil, eventType, []byte(e.Type)), eventObject, extension)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...), nil //nolint:gosec // at most maxFrame
}

// withKind returns a pod with its kind, which the items of a list do not have.
func withKind(pod []byte) ([]byte, error) {
	has := map[string]bool{}
	if err := eachMember(pod, func(key string, _, _ int) error {
		has[key] = true
		return nil
	}); err != nil {
		return nil, fmt.Errorf("parse a pod: %w", err)
	}
	var err error
	if !has["apiVersion"] {
		pod, err = withMembers(pod, []byte(`"apiVersion":"v1"`))
	}
	if err == nil && !has["kind"] {
		pod, err = withMembers(pod, []byte(`"kind":"Pod"`))
	}
	return pod, err
}
