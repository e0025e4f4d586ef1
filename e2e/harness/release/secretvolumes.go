package release

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	corelisters "k8s.io/client-go/listers/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// secretVolumes are the Secrets that a pod mounts.
type secretVolumes struct {
	// secrets reads from a watch.
	secrets corelisters.SecretNamespaceLister
	// folders are by the name of the Secret.
	folders map[string]string
}

// secretVolumes returns the Secrets that the first container of a pod mounts. Its file system begins at root.
func (k *Kubelet) secretVolumes(p *corev1.Pod, root string) secretVolumes {
	v := secretVolumes{secrets: k.secrets.Secrets(p.Namespace), folders: map[string]string{}}
	for _, volume := range p.Spec.Volumes {
		for _, mount := range p.Spec.Containers[0].VolumeMounts {
			if volume.Secret != nil && mount.Name == volume.Name {
				v.folders[volume.Secret.SecretName] = filepath.Join(root, mount.MountPath)
			}
		}
	}
	return v
}

// mount writes the Secrets to files once all of them exist.
func (v secretVolumes) mount(ctx context.Context) error {
	missing := maps.Clone(v.folders)
	return wait.PollUntilContextCancel(ctx, pollInterval, true, func(context.Context) (bool, error) {
		for name, folder := range missing {
			err := v.write(name, folder)
			if err == nil {
				delete(missing, name)
			} else if client.IgnoreNotFound(err) != nil {
				return false, err
			}
		}
		return len(missing) == 0, nil
	})
}

// update writes the files again when their Secrets change, until the pod ends.
func (v secretVolumes) update(ctx context.Context) {
	_ = wait.PollUntilContextCancel(ctx, pollInterval, false, func(context.Context) (bool, error) { // ends with ctx
		for name, folder := range v.folders {
			_ = v.write(name, folder) // A kubelet keeps the files of a deleted Secret, and tries again.
		}
		return false, nil
	})
}

// write writes the values of a Secret unless the files have them. Like a kubelet, it replaces all files of a Secret at once: folder is a
// symbolic link to the newest directory.
func (v secretVolumes) write(name, folder string) error {
	secret, err := v.secrets.Get(name)
	if err != nil {
		return err
	}
	newest := folder + ".." + secret.ResourceVersion
	old, err := os.Readlink(folder)
	if old == newest {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(newest, 0o700); err != nil {
		return err
	}
	for key, content := range secret.Data {
		if err := os.WriteFile(filepath.Join(newest, key), content, 0o600); err != nil {
			return err
		}
	}
	link := newest + ".link"
	if err := os.Symlink(newest, link); err != nil {
		return err
	}
	if err := os.Rename(link, folder); err != nil {
		return err
	}
	if old == "" {
		return nil
	}
	return os.RemoveAll(old)
}
