/** NOT_SENT: no byte reached the server. UNKNOWN: sent without an answer, and not repeated. REFUSED: not sent. */
export type FailureOutcome = 'NOT_SENT' | 'UNKNOWN' | 'REFUSED';

interface CatalogueEntry {
  /** JSON-RPC code. The gateway's own codes are outside -32768…-32000, which the specification reserves. */
  readonly rpc: number;
  readonly outcome: FailureOutcome;
  readonly retryable: boolean;
  /** One line of docs/errors.md; a test keeps both equal. */
  readonly meaning: string;
}

function entry(rpc: number, outcome: FailureOutcome, retryable: boolean, meaning: string): CatalogueEntry {
  return { rpc, outcome, retryable, meaning };
}

/** Every error that the gateway returns to clients or operators, by name; docs/errors.md describes each. */
export const CATALOGUE = {
  PARSE_ERROR: entry(-32700, 'REFUSED', false, 'The body is not one well-formed JSON document.'),
  INVALID_REQUEST: entry(-32600, 'REFUSED', false, 'The JSON is not a JSON-RPC 2.0 message this endpoint takes.'),
  METHOD_NOT_FOUND: entry(-32601, 'REFUSED', false, 'The method does not exist in the revision the client speaks.'),
  INVALID_PARAMS: entry(-32602, 'REFUSED', false, 'A parameter is missing, malformed, or names nothing that exists.'),
  INTERNAL: entry(-32603, 'UNKNOWN', false, 'A defect of the gateway; the log has the details under the request id.'),
  HEADER_MISMATCH: entry(-32020, 'REFUSED', false, 'An Mcp-* header is missing or differs from the body (2026-07-28).'),
  MISSING_CAPABILITY: entry(-32021, 'REFUSED', false, 'The request needs a client capability that was not declared.'),
  UNSUPPORTED_VERSION: entry(-32022, 'REFUSED', false, 'The protocol revision asked for is not served here.'),
  RESOURCE_NOT_FOUND: entry(
    -32002,
    'REFUSED',
    false,
    'No server here has a resource of that URI (stateful revisions).',
  ),
  NOT_SENT: entry(53001, 'NOT_SENT', true, 'No byte of the call reached the server; it is safe to retry.'),
  UNKNOWN: entry(53002, 'UNKNOWN', false, 'The call was sent and no answer came; it may have run.'),
  TIMEOUT: entry(53003, 'UNKNOWN', false, 'The deadline of the call ran out; a cancel was sent to the server.'),
  OVERLOADED: entry(53004, 'REFUSED', true, 'A limit of the gateway or of the server is reached; retry later.'),
  UPSTREAM_PROTOCOL: entry(53005, 'UNKNOWN', false, 'The server answered with something that is not valid MCP.'),
  AUTH_REQUIRED: entry(53006, 'REFUSED', false, 'The server asks for credentials the gateway does not have.'),
  TOO_LARGE: entry(53007, 'UNKNOWN', false, 'The answer is larger than the limit of this server.'),
  QUARANTINED: entry(
    53008,
    'REFUSED',
    false,
    'The definition is new or has changed and waits for approval, or is blocked.',
  ),
  ACCESS_DENIED: entry(53009, 'REFUSED', false, 'The caller may not use this server.'),
  RATE_LIMITED: entry(53011, 'REFUSED', true, 'The caller called this tool too often; retry later.'),
  CANCELLED: entry(53010, 'UNKNOWN', false, 'The caller cancelled the call.'),
} as const satisfies Record<string, CatalogueEntry>;

export type ErrorCode = keyof typeof CATALOGUE;
