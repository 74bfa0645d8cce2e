/**
 * Why there is no (whole) response.
 * `refused`: no connection. `dns`: no address. `timeout`: a limit of connecting, of a head or of a body ran out.
 * `reset`: the connection ended early. `tls`: the handshake failed or the certificate is not good. `protocol`: what
 * came is not HTTP as we take it. `too_large`, `head_too_large`: the body or the head is over its limit. `proxy`: the proxy refused. `closed`: our own `close`.
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
  | 'closed';

/**
 * A request that ended without a whole response. `sent` decides about retries: false only when the operating system
 * took no byte of the request.
 */
export class HttpFailure extends Error {
  readonly kind: HttpFailureKind;
  readonly sent: boolean;
  /** The connection had served an earlier request, as far as the client can tell. */
  kept = true;

  constructor(kind: HttpFailureKind, sent: boolean, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'HttpFailure';
    this.kind = kind;
    this.sent = sent;
  }
}
