package access

import (
	"crypto/sha256"
	"encoding/json"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
)

// Identity is the identity of a user, as reported by the API server, or the user of a local console.
type Identity struct {
	Name   string
	uid    string
	groups []string
	extra  map[string]authorizationv1.ExtraValue
	// key identifies this identity.
	key [sha256.Size]byte
}

// identify converts the user of a token review into an Identity.
func identify(user authenticationv1.UserInfo) Identity {
	who := Identity{Name: user.Username, uid: user.UID, groups: user.Groups}
	if len(user.Extra) > 0 {
		who.extra = make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	}
	for key, value := range user.Extra {
		who.extra[key] = authorizationv1.ExtraValue(value)
	}
	text, err := json.Marshal(user)
	if err != nil {
		panic("access: a struct of strings has no JSON: " + err.Error())
	}
	who.key = sha256.Sum256(text)
	return who
}

// Permission is the permission to list a resource in a namespace. An empty namespace means all namespaces, or a cluster-scoped resource.
type Permission struct {
	Group, Resource, Namespace string
}

func (r Permission) accessReview(who Identity) *authorizationv1.SubjectAccessReview {
	return &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: who.Name, UID: who.uid, Groups: who.groups, Extra: who.extra,
		ResourceAttributes: r.attributes(),
	}}
}

func (r Permission) attributes() *authorizationv1.ResourceAttributes {
	return &authorizationv1.ResourceAttributes{Verb: "list", Group: r.Group, Resource: r.Resource, Namespace: r.Namespace}
}
