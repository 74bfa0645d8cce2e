const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
/** Headers that the protocol sets; a fixed value could only break it. */
const RESERVED =
  /^(?:host|content-length|content-type|transfer-encoding|connection|upgrade|te|trailer|accept|mcp-.*|last-event-id|keep-alive|expect|traceparent|tracestate)$/i;

/**
 * Why requests to a server cannot have this header; null if they can. `seen`: the names of the headers before it, by
 * lower-case name.
 */
export function headerComplaint(name: string, value: string, seen: ReadonlyMap<string, string>): string | null {
  if (!HEADER_NAME.test(name)) return 'is not the name of a header';
  if (RESERVED.test(name)) return 'is set by the protocol itself';
  const twin = seen.get(name.toLowerCase());
  if (twin !== undefined) return `is the same header as ${JSON.stringify(twin)}`;
  // Header values are Latin-1 on the wire (RFC 9110 §5.5); the author of the definition has to encode anything else.
  return /[^\t\u0020-\u007e\u0080-\u00ff]/.test(value.trim())
    ? 'has a value with characters a header cannot carry'
    : null;
}
