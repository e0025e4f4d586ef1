package chaos

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// keepHistory returns the arguments of API servers that never compact their etcd: a history with a gap proves nothing.
func keepHistory() []string { return []string{"--etcd-compaction-interval=0"} }

// podsKey returns the etcd prefix of the pods of a namespace.
func podsKey(namespace string) string { return "/registry/pods/" + namespace + "/" }

// podsAt reads the current pods of a namespace, and the revision of that read.
func podsAt(ctx context.Context, etcd *clientv3.Client, namespace string) ([]revision, int64, error) {
	response, err := etcd.Get(ctx, podsKey(namespace), clientv3.WithPrefix())
	if err != nil {
		return nil, 0, fmt.Errorf("read the pods of namespace %s: %w", namespace, err)
	}
	var pods []revision
	for _, kv := range response.Kvs {
		pod, err := decode(kv.Value)
		if err != nil {
			return nil, 0, fmt.Errorf("%s: %w", kv.Key, err)
		}
		pods = append(pods, revision{Number: kv.ModRevision, Key: string(kv.Key), Pod: pod})
	}
	return pods, response.Header.Revision, nil
}

// podsAfter reads every change of the pods of a namespace after a revision, up to one that is newer than the call.
func podsAfter(ctx context.Context, etcd *clientv3.Client, namespace string, after int64) ([]revision, error) {
	head, err := revisionOf(ctx, etcd)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events := etcd.Watch(clientv3.WithRequireLeader(ctx), podsKey(namespace), clientv3.WithPrefix(), clientv3.WithRev(after+1))
	// etcd reports the progress of a watch only on request, and only once the watch has caught up.
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	var changes []revision
	for {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("read the history of namespace %s up to revision %d: %w", namespace, head, ctx.Err())
		case <-ticker.C:
			if err := etcd.RequestProgress(clientv3.WithRequireLeader(ctx)); err != nil {
				return nil, fmt.Errorf("request watch progress: %w", err)
			}
		case response, open := <-events:
			if err := response.Err(); err != nil || !open {
				// A compacted history is among these errors: it has a gap, and proves nothing.
				return nil, fmt.Errorf("the watch of the history of namespace %s ended: %w", namespace, err)
			}
			if changes, err = appendChanges(changes, response.Events); err != nil {
				return nil, err
			}
			if response.IsProgressNotify() && response.Header.Revision >= head {
				return changes, nil
			}
		}
	}
}

func appendChanges(changes []revision, events []*clientv3.Event) ([]revision, error) {
	for _, event := range events {
		change := revision{Number: event.Kv.ModRevision, Key: string(event.Kv.Key)}
		if event.Type == clientv3.EventTypePut {
			pod, err := decode(event.Kv.Value)
			if err != nil {
				return nil, fmt.Errorf("%s at revision %d: %w", event.Kv.Key, event.Kv.ModRevision, err)
			}
			change.Pod = pod
		}
		changes = append(changes, change)
	}
	return changes, nil
}

func decode(stored []byte) (*corev1.Pod, error) {
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(stored, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("decode a stored pod: %w", err)
	}
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return nil, fmt.Errorf("want a Pod, got a stored %T", object)
	}
	return pod, nil
}
