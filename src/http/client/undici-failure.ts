import { HttpFailure, type HttpFailureKind } from './http-failure.ts';
import { MAX_HEAD_BYTES } from './response-parser.ts';

const KINDS: Readonly<Record<string, HttpFailureKind>> = {
  UND_ERR_CONNECT_TIMEOUT: 'timeout',
  ETIMEDOUT: 'timeout',
  ENOTFOUND: 'dns',
  EAI_AGAIN: 'dns',
  ECONNREFUSED: 'refused',
  EHOSTUNREACH: 'refused',
  ENETUNREACH: 'refused',
  EADDRNOTAVAIL: 'refused',
  EMFILE: 'refused',
  UND_ERR_DESTROYED: 'closed',
  UND_ERR_CLOSED: 'closed',
  UND_ERR_INVALID_ARG: 'protocol',
  UND_ERR_PRX_CONN: 'proxy',
  UND_ERR_PRX_TLS: 'tls',
};

const TLS_CODE =
  /^(?:ERR_TLS_|ERR_SSL_|ERR_OSSL_|ERR_CRYPTO_|CERT_|CRL_|UNABLE_TO_|DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT|INVALID_CA|INVALID_PURPOSE|HOSTNAME_MISMATCH|PATH_LENGTH|ERROR_IN_CERT|EPROTO)/;
/** In TLS 1.3 the server judges the client's certificate after the client's first bytes; it has read none of them. */
const REFUSED_BY_ALERT = /^ERR_SSL_.*ALERT_.*(?:CERTIFICATE|UNKNOWN_CA|ACCESS_DENIED|HANDSHAKE_FAILURE|DECRYPT_ERROR)/;

/** What undici or Node's TLS reports, in the words of the port. Codes decide, never texts, but for two without a code. */
export function undiciFailure(error: Error, sent: boolean): HttpFailure {
  const root = rootOf(error);
  const code = String((root as NodeJS.ErrnoException).code ?? '');
  const message = `${root.message}${code === '' || root.message.includes(code) ? '' : ` (${code})`}`;
  if (TLS_CODE.test(code)) return new HttpFailure('tls', sent && !REFUSED_BY_ALERT.test(code), message, error);
  if (root.name === 'HTTPParserError') return new HttpFailure('protocol', sent, message, error);
  if (!sent && /before secure TLS connection/.test(root.message)) return new HttpFailure('tls', false, message, error);
  if (!sent && /^Proxy /.test(root.message)) return new HttpFailure('proxy', false, message, error);
  if (code === 'UND_ERR_HEADERS_OVERFLOW') {
    const words = `the head of the answer is larger than the limit of ${MAX_HEAD_BYTES} bytes`;
    return new HttpFailure('head_too_large', sent, words, error);
  }
  return new HttpFailure(KINDS[code] ?? (sent ? 'reset' : 'refused'), sent, message, error);
}

function rootOf(error: Error): Error {
  let root = error;
  if (root instanceof AggregateError && root.errors[0] instanceof Error) root = root.errors[0];
  while (root.cause instanceof Error && (root.cause as NodeJS.ErrnoException).code !== undefined) root = root.cause;
  return root;
}
