import { GatewayError } from '../../model/gateway-error.ts';
import { LATEST_STATEFUL, type Message, type Revision, STATEFUL_REVISIONS } from '../../model/message.ts';
import { isIntroductionTooLong } from '../../protocol/client-capabilities.ts';
import { fields, isObject, type Range, stringValue } from '../../protocol/fields.ts';

export interface DeclaredClient {
  /** The session's revision: the client's if it is a stateful one, else the gateway's newest. */
  readonly revision: Revision;
  /** As the client wrote them. */
  readonly capabilities: string;
  readonly info: string | null;
}

/** Reads the client's declaration in `initialize` (lifecycle §Initialization of the stateful revisions). */
export function readInitialize(request: Message): DeclaredClient | GatewayError {
  if (request.bodyStart < 0) return new GatewayError('INVALID_PARAMS', 'initialize needs params');
  const { bytes } = request;
  const [version, capabilities, info] = fields(bytes, request.bodyStart, request.bodyEnd, [
    'protocolVersion',
    'capabilities',
    'clientInfo',
  ]) as [Range | null, Range | null, Range | null];
  const asked = version === null ? null : stringValue(bytes, version);
  if (asked === null) return new GatewayError('INVALID_PARAMS', 'protocolVersion is missing or not a string');
  if (capabilities !== null && !isObject(bytes, capabilities)) {
    return new GatewayError('INVALID_PARAMS', 'capabilities is not an object');
  }
  if (info !== null && !isObject(bytes, info)) return new GatewayError('INVALID_PARAMS', 'clientInfo is not an object');
  if (isIntroductionTooLong(capabilities, info)) {
    return new GatewayError('INVALID_PARAMS', 'capabilities and clientInfo are too large');
  }
  return {
    revision: STATEFUL_REVISIONS.find((revision) => revision === asked) ?? LATEST_STATEFUL,
    capabilities: capabilities === null ? '{}' : bytes.toString('utf8', capabilities.start, capabilities.end),
    info: info === null ? null : bytes.toString('utf8', info.start, info.end),
  };
}
