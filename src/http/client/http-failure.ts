/**
 * Why there is no complete response. `refused`: no connection. `dns`: no address. `timeout`: a limit of connecting, of a
 * head or of a body was exceeded. `reset`: the connection ended early. `tls`: the handshake failed or the certificate is
 * not valid. `protocol`: the response is not HTTP that the client accepts. `too_large`, `head_too_large`: the body or the
 * head exceeds its limit. `proxy`: the proxy refused. `closed`: the client was closed. `malformed`: the head of the request has
 * text that HTTP does not allow, which says nothing about the server.
 */
export type HttpFailureKind =
  | 'refused'
  | 'dns'
  | 'timeout'
  | 'reset'
  | 'tls'
  | 'protocol'
  | 'too_large'
  | 'head_too_large'
  | 'proxy'
  | 'closed'
  | 'malformed';

/**
 * A request that ended without a complete response. `sent` decides about retries: false only if the operating system took
 * no byte of the request.
 */
export class HttpFailure extends Error {
  readonly kind: HttpFailureKind;
  readonly sent: boolean;
  /** The connection had served an earlier request, as far as the client can tell. */
  reusedConnection = true;

  constructor(kind: HttpFailureKind, sent: boolean, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'HttpFailure';
    this.kind = kind;
    this.sent = sent;
  }
}
