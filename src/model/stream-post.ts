/** What a client of HTTP+SSE posted to a node that does not have its stream. */
export interface StreamPost {
  readonly sessionId: string;
  /** Id of the caller, as the node that was asked has authenticated it. */
  readonly principal: string;
  /** Path of the endpoint that was posted to. */
  readonly endpoint: string;
  readonly body: Buffer;
}

/** How the POST is answered: 202, or an error. */
export interface PostAnswer {
  readonly status: number;
  /** Of the JSON-RPC error; 0 for none. */
  readonly code: number;
  readonly text: string;
  /** Of the request, as written; empty where it is not known. */
  readonly id: string;
}
