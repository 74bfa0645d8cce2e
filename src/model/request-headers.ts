const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
/** Headers that are the wire's own: a fixed value could only break it. */
const RESERVED =
  /^(?:host|content-length|content-type|transfer-encoding|connection|upgrade|te|trailer|accept|mcp-.*|last-event-id|keep-alive|expect|traceparent|tracestate)$/i;

/**
 * Why requests to a server cannot have this header; null where they can. `seen`: the headers before it, by their names in
 * small letters.
 */
export function headerComplaint(name: string, value: string, seen: ReadonlyMap<string, string>): string | null {
  if (!HEADER_NAME.test(name)) return 'is not the name of a header';
  if (RESERVED.test(name)) return 'is set by the protocol itself';
  const twin = seen.get(name.toLowerCase());
  if (twin !== undefined) return `is the same header as ${JSON.stringify(twin)}`;
  // Header values are Latin-1 on the wire (RFC 9110 §5.5); anything else has to be encoded by who writes it.
  return /[^\t\u0020-\u007e\u0080-\u00ff]/.test(value.trim())
    ? 'has a value with characters a header cannot carry'
    : null;
}
