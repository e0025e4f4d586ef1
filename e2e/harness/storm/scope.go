package storm

import (
	"fmt"

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

// NewCell connects to a cluster, without any rate limit of the client's own: it would soften the storm.
func NewCell(name string, config *rest.Config) (Cell, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return Cell{}, fmt.Errorf("connect to cell %s: %w", name, err)
	}
	return Cell{Name: name, Client: client}, nil
}

// Scope is what a storm is about: the pods that a selector chooses in one namespace of every cell.
type Scope struct {
	Cells     []Cell
	Namespace string
	// Selector is a label selector as kubectl takes it.
	Selector string
}

// Pod is a pod that lives in a cell.
type Pod struct {
	Cell      Cell
	Namespace string
	Name      string
	UID       types.UID
	// Available tells whether it was available when we were asked.
	Available bool
}

func podOf(cell Cell, pod *corev1.Pod) Pod {
	return Pod{Cell: cell, Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}
