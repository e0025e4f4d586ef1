package snapshot

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/pager"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// LiveRead is the pods of a namespace as the API server has them at a version.
type LiveRead struct {
	Version uint64
	Pods    map[quota.UIDHash]LivePod
}

// LivePod is the part of a pod that a live read returns; generation is 0 if the API server does not set it for pods.
type LivePod struct {
	Terminating bool
	Generation  int64
	Version     int64
}

// IsIn reports whether a snapshot of a version has the pod in the state in which it was read, or in a later one.
func (p LivePod) IsIn(version uint64) bool { return p.Version > 0 && uint64(p.Version) <= version }

// has reports whether a pod existed.
func (l *LiveRead) has(hash quota.UIDHash) bool {
	_, listed := l.Pods[hash]
	return listed
}

// isAlive reports whether a pod existed and was not terminating.
func (l *LiveRead) isAlive(hash quota.UIDHash) bool {
	pod, listed := l.Pods[hash]
	return listed && !pod.Terminating
}

// LiveReader reads pods from the cell's API server, not from an old cache.
type LiveReader struct {
	Clientset kubernetes.Interface
	Metadata  metadata.Interface
	// Lists counts the lists of a namespace.
	Lists prometheus.Counter
}

// ListPods lists the metadata of the pods of a namespace that a selector matches.
func (r *LiveReader) ListPods(ctx context.Context, namespace, selector string) (LiveRead, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	r.Lists.Inc()
	pods := r.Metadata.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace(namespace)
	read := LiveRead{Pods: map[quota.UIDHash]LivePod{}}
	list := func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		page, err := pods.List(ctx, options)
		if err != nil {
			return nil, err
		}
		if options.Continue == "" { // the first page, or a whole list in place of pages whose version was compacted
			clear(read.Pods)
		}
		for i := range page.Items {
			item := &page.Items[i]
			read.Pods[quota.HashUID(item.UID)] = LivePod{item.DeletionTimestamp != nil, item.Generation, PodVersion(item.ResourceVersion)}
		}
		if read.Version, err = listVersion(page); err != nil {
			return nil, err
		}
		page.Items = nil
		return page, nil
	}
	if _, _, err := pager.New(list).List(ctx, metav1.ListOptions{LabelSelector: selector}); err != nil {
		return LiveRead{}, fmt.Errorf("list the pods of namespace %s: %w", namespace, err)
	}
	return read, nil
}

// Version returns the current version of the cell's API server.
func (r *LiveReader) Version(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	page, err := r.Metadata.Resource(corev1.SchemeGroupVersion.WithResource("pods")).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, fmt.Errorf("read the version of the cell's pods: %w", err)
	}
	return listVersion(page)
}

// ReadPod reads a pod; nil if there is none of that name.
func (r *LiveReader) ReadPod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	pod, err := r.Clientset.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return pod, err
}

func listVersion(page *metav1.PartialObjectMetadataList) (uint64, error) {
	version, err := strconv.ParseUint(page.ResourceVersion, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("resourceVersion %q of a list is not a number", page.ResourceVersion)
	}
	return version, nil
}
