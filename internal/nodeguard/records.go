package nodeguard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/breakwater-k8s/breakwater/internal/core/podhold"
)

// records reads what Breakwater records in the worker cluster for node guards.
type records struct {
	own *Account
	// namespace is that of Breakwater in the cluster.
	namespace string
	store     *store
	log       logr.Logger

	// published are the newest lists that were read; only run uses it.
	published map[string]podhold.Published
	// versions are the versions of the lists that were read last, by name; only run uses them.
	versions map[string]string

	mu    sync.RWMutex
	index podhold.Index
}

var _ cluster = (*records)(nil)

// Admission implements cluster.
func (r *records) Admission(ctx context.Context, namespace string, uid types.UID) podhold.Admission {
	var event corev1.Event
	err := r.own.do(ctx, http.MethodGet, "/api/v1/namespaces/"+namespace+"/events/"+podhold.AdmittedEvent(uid), "", nil, &event)
	var status *statusError
	switch {
	case err == nil && event.InvolvedObject.UID == uid:
		return podhold.Admitted
	case err == nil, errors.As(err, &status) && status.code == http.StatusNotFound:
		return podhold.NotAdmitted
	default:
		r.log.Info("Failed to read whether the removal of a pod was admitted; holding it meanwhile", "namespace", namespace, "uid", uid, "reason", err.Error())
		return podhold.Unknown
	}
}

// Protects implements cluster.
func (r *records) Protects(p *corev1.Pod) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.index.Covers(p)
}

// Covering returns the protectors that cover the pod.
func (r *records) Covering(p *corev1.Pod) []podhold.Ref {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.index.Covering(p)
}

// answers reads what aggregators answer to node guards.
func (r *records) answers(ctx context.Context) ([]podhold.Answer, error) {
	var list corev1.ConfigMapList
	if err := r.own.query(ctx, r.configMaps(), url.Values{"labelSelector": {podhold.LabelAnswers}}, &list); err != nil {
		return nil, fmt.Errorf("read the answers of aggregators: %w", err)
	}
	var all []podhold.Answer
	for i := range list.Items {
		var some []podhold.Answer
		if err := json.Unmarshal([]byte(list.Items[i].Data[podhold.AnswersKey]), &some); err != nil {
			return nil, fmt.Errorf("ConfigMap %s/%s: %w", r.namespace, list.Items[i].Name, err)
		}
		all = append(all, some...)
	}
	return all, nil
}

func (r *records) configMaps() string { return "/api/v1/namespaces/" + r.namespace + "/configmaps" }

const (
	protectedFile = "protected.json"
	// refreshEvery is how often the guard reads which pods are protected. All guards of a cluster start together after a disaster, and jitter
	// spreads their requests: it is the share that a pause may be longer.
	refreshEvery = 10 * time.Second
	jitter       = 0.1
)

// restore uses what an earlier guard has read.
func (r *records) restore() error {
	var published map[string]podhold.Published
	if err := r.store.readJSON(protectedFile, &published); err != nil || published == nil {
		return err
	}
	return r.use(published)
}

func (r *records) use(published map[string]podhold.Published) error {
	var all []podhold.Protected
	for name, list := range published {
		for _, p := range list.Protected {
			p.List = name
			all = append(all, p)
		}
	}
	index, err := podhold.NewIndex(all)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.index, r.published = index, published
	return nil
}

// refresh reads which pods are protected, if that has changed.
func (r *records) refresh(ctx context.Context) error {
	selected := url.Values{"labelSelector": {podhold.LabelProtected}}
	var metadata metav1.PartialObjectMetadataList
	if err := r.own.query(ctx, r.configMaps(), selected, &metadata); err != nil {
		return fmt.Errorf("read whether other pods are protected: %w", err)
	}
	versions := map[string]string{}
	for i := range metadata.Items {
		versions[metadata.Items[i].Name] = metadata.Items[i].ResourceVersion
	}
	if r.versions != nil && maps.Equal(versions, r.versions) {
		return nil
	}
	var list corev1.ConfigMapList
	if err := r.own.query(ctx, r.configMaps(), selected, &list); err != nil {
		return fmt.Errorf("read which pods are protected: %w", err)
	}
	if err := r.learn(list.Items); err != nil {
		return err
	}
	r.versions = versions // of the lists or of earlier ones, so that no change is missed
	return nil
}

// learn uses and stores what aggregators have published.
func (r *records) learn(configMaps []corev1.ConfigMap) error {
	read := map[string]podhold.Published{}
	for i := range configMaps {
		var list podhold.Published
		if err := json.Unmarshal([]byte(configMaps[i].Data[podhold.ProtectedKey]), &list.Protected); err != nil {
			return fmt.Errorf("ConfigMap %s/%s: %w", r.namespace, configMaps[i].Name, err)
		}
		list.Version, _ = strconv.ParseInt(configMaps[i].Annotations[podhold.AnnotationVersion], 10, 64) // without one it is the oldest
		read[configMaps[i].Name] = list
	}
	newest := podhold.Newest(r.published, read)
	if len(newest) == 0 {
		return nil // no aggregator has published it yet
	}
	if err := r.use(newest); err != nil {
		return err
	}
	return r.store.writeJSON(protectedFile, newest)
}

// run refreshes until ctx ends.
func (r *records) run(ctx context.Context) {
	last := ""
	wait.JitterUntilWithContext(ctx, func(ctx context.Context) {
		err := r.refresh(ctx)
		if text := fmt.Sprint(err); err != nil && text != last && ctx.Err() == nil {
			r.log.Info("Failed to refresh; using what was known", "reason", text)
			last = text
		}
	}, refreshEvery, jitter, true)
}
