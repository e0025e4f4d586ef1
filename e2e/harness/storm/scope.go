package storm

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Cell is one cluster whose pods the storm removes.
type Cell struct {
	Name   string
	Client kubernetes.Interface
}

// NewCell connects to a cluster. The client has no rate limit of its own, which would soften the storm.
func NewCell(name string, config *rest.Config) (Cell, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return Cell{}, fmt.Errorf("connect to cell %s: %w", name, err)
	}
	return Cell{Name: name, Client: client}, nil
}

// Scope is the target of a storm: the pods that a selector chooses in one namespace of every cell.
type Scope struct {
	Cells     []Cell
	Namespace string
	// Selector is a label selector in the syntax of kubectl.
	Selector string
}

// Pod is a pod of a cell.
type Pod struct {
	Cell      Cell
	Namespace string
	Name      string
	UID       types.UID
	// Available reports whether it was available when the recorder returned it.
	Available bool
}

func podOf(cell Cell, pod *corev1.Pod) Pod {
	return Pod{Cell: cell, Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}

// FirstAvailable returns the first available pod; ok is false if there is none.
func FirstAvailable(pods []Pod) (pod Pod, ok bool) {
	i := slices.IndexFunc(pods, func(p Pod) bool { return p.Available })
	if i < 0 {
		return pod, false
	}
	return pods[i], true
}
