package join

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// tokenTime is how long the token controller of the issuer may take to create a token.
const tokenTime = 30 * time.Second

// credential is a token and the Secret in the issuer's cluster whose deletion revokes it.
type credential struct {
	token  string
	secret corev1.Secret
	// until is the expiration time that the API server granted; zero means never.
	until time.Time
}

// issue creates a token. After an error it deletes what it created.
func (o *Options) issue(ctx context.Context, l *link) (*credential, error) {
	c := &credential{secret: corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, GenerateName: l.token, Labels: o.labels(v1alpha1.JoinedByToken)},
	}}
	fill := o.request
	if o.Lifetime == 0 {
		c.secret.Type = corev1.SecretTypeServiceAccountToken
		c.secret.Annotations = map[string]string{corev1.ServiceAccountNameKey: l.account}
		fill = o.await
	}
	if err := l.issuer.client.Create(ctx, &c.secret, client.FieldOwner(Owner)); err != nil {
		return nil, fmt.Errorf("make a Secret for a token in %s: %w", l.issuer.words, err)
	}
	if err := fill(ctx, l, c); err != nil {
		return nil, takenBack(ctx, l, c, err)
	}
	return c, nil
}

// await reads the token that the issuer's token controller writes to the Secret.
func (o *Options) await(ctx context.Context, l *link, c *credential) error {
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, tokenTime, true, func(ctx context.Context) (bool, error) {
		err := l.issuer.client.Get(ctx, client.ObjectKeyFromObject(&c.secret), &c.secret)
		return len(c.secret.Data[corev1.ServiceAccountTokenKey]) > 0, err
	})
	if wait.Interrupted(err) {
		return fmt.Errorf("%s has put no token into Secret %s/%s within %s: see that its kube-controller-manager runs, or ask for tokens that expire by --token-lifetime",
			l.issuer.words, c.secret.Namespace, c.secret.Name, tokenTime)
	}
	if err != nil {
		return fmt.Errorf("wait for the token in %s: %w", l.issuer.words, err)
	}
	c.token = string(c.secret.Data[corev1.ServiceAccountTokenKey])
	return nil
}

// request requests a token that expires. The token is bound to the Secret, so that deleting the Secret revokes it earlier.
func (o *Options) request(ctx context.Context, l *link, c *credential) error {
	seconds := int64(o.Lifetime / time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &seconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Secret", Name: c.secret.Name, UID: c.secret.UID},
	}}
	granted, err := l.issuer.clientset.CoreV1().ServiceAccounts(o.Namespace).CreateToken(ctx, l.account, request, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("ask %s for a token of ServiceAccount %s/%s: %w", l.issuer.words, o.Namespace, l.account, err)
	}
	c.token, c.until = granted.Status.Token, granted.Status.ExpirationTimestamp.Time
	return nil
}

// takenBack withdraws a new token after an error and returns that error. It runs even if ctx was canceled.
func takenBack(ctx context.Context, l *link, c *credential, because error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tokenTime)
	defer cancel()
	if err := l.withdraw(ctx, []corev1.Secret{c.secret}); err != nil {
		return fmt.Errorf("%w; besides, %w", because, err)
	}
	return because
}
