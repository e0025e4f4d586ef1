package registry

import (
	"context"
	"fmt"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Push pushes an artifact under a name, with the credentials of the Docker configuration, and returns the name with the digest. It uses HTTP for
// loopback and private addresses, and HTTPS for all others.
func Push(ctx context.Context, as string, a Artifact) (string, error) {
	tag, err := name.NewTag(as)
	if err != nil {
		return "", err
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	switch content := a.Appendable.(type) {
	case v1.ImageIndex:
		err = remote.WriteIndex(tag, content, options...)
	case v1.Image:
		err = remote.Write(tag, content, options...)
	}
	if err != nil {
		return "", fmt.Errorf("push %s: %w", as, err)
	}
	digest, err := a.Digest()
	return tag.Name() + "@" + digest.String(), err
}
