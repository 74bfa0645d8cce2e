import { shapeFailure } from '../../gateway/failure-shape.ts';
import type { Core } from '../../gateway/gateway.ts';
import type { HandshakeView } from '../../gateway/resolve/resolver.ts';
import type { ClientProfile } from '../../model/client-profile.ts';
import type { Endpoint } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { type Message, STATELESS_REVISIONS } from '../../model/message.ts';
import { answer, failure, type Outcome } from '../../model/outcome.ts';
import { result } from '../../protocol/compose.ts';
import { discoverResult, initializeResult } from '../../protocol/handshake-results.ts';
import { SERVER_INFO_KEY, SUBSCRIPTION_ID_KEY } from '../../protocol/meta-keys.ts';

/** The answer to `initialize`: the endpoint's handshake, or an error if it is not known. */
export async function initializeAnswer(
  core: Core,
  request: Message,
  endpoint: Endpoint,
  client: ClientProfile,
): Promise<Message> {
  const view = await core.handshake(endpoint, client);
  if (view instanceof GatewayError) return shapeFailure(request, endpoint, view);
  if (view.handshake !== null) return result(request.id, initializeResult(view.handshake, client.revision), 'stateful');
  const { capabilities, serverInfo } = view;
  const head = `{"protocolVersion":"${client.revision}","capabilities":${capabilities},"serverInfo":${serverInfo}`;
  return result(request.id, `${head}${instructions(view)}}`, 'stateful');
}

/** The outcome of `server/discover`. */
export async function discoverAnswer(
  core: Core,
  request: Message,
  endpoint: Endpoint,
  client: ClientProfile,
): Promise<Outcome> {
  const view = await core.handshake(endpoint, client);
  if (view instanceof GatewayError) return failure(view);
  const { handshake, ttlMs, cacheScope, capabilities, serverInfo } = view;
  if (handshake !== null) return answer(result(request.id, discoverResult(handshake, view), 'stateless'));
  const hints = `"ttlMs":${ttlMs},"cacheScope":"${cacheScope}"`;
  const meta = `"_meta":{${JSON.stringify(SERVER_INFO_KEY)}:${serverInfo}}`;
  const versions = `"supportedVersions":${JSON.stringify(STATELESS_REVISIONS)}`;
  const body = `{"resultType":"complete",${versions},"capabilities":${capabilities}${instructions(view)},${hints},${meta}}`;
  return answer(result(request.id, body, 'stateless'));
}

/** The result that ends a listening stream (2026-07-28 subscriptions §Graceful Closure). */
export function listenCompletion(listen: Message): Message {
  // A lexeme has one character per byte; the body is UTF-8 text.
  const id = Buffer.from(listen.id, 'latin1').toString('utf8');
  const meta = `{${JSON.stringify(SUBSCRIPTION_ID_KEY)}:${id}}`;
  return result(listen.id, `{"resultType":"complete","_meta":${meta}}`, 'stateless');
}

function instructions(view: HandshakeView): string {
  return view.instructions === null ? '' : `,"instructions":${JSON.stringify(view.instructions)}`;
}
