import { anyObject, described, flag, list, nullable, object, optional, record, text, union } from '../model/schema.ts';
import { bodyOf } from './json-object.ts';
import { type ApiOperation, mapRunTimeProblems, ok, operation, problem, shownProblem } from './operation.ts';
import { DEFINITION_PROBLEM } from './schemas.ts';

const MAX_BODY_BYTES = 256 * 1024;

const OFFER = union(
  object({
    command: described(text, 'An address, or a command with its arguments, as in a shell.'),
    name: optional(nullable(described(text, 'Of the server; by default one that follows from the command.'))),
  }),
  object({
    document: described(text, 'The text of any client’s file or of one of Trunkline, or a part of it.'),
    name: optional(nullable(described(text, 'Of a server that has none in the text.'))),
    values: optional(described(record(text), 'Of inputs, by their ids.')),
  }),
);
const OFFERED = object({
  servers: list(
    object({
      name: text,
      definition: described(anyObject, 'For `POST /api/v1/servers`.'),
      secrets: described(
        record(text),
        'Values by the names that the definition refers to: to be set (`PUT /api/v1/secrets/{name}`) before it is added.',
      ),
      there: described(flag, 'There is such a server already, the same in everything.'),
      taken: described(
        nullable(text),
        'Why the name cannot be had; null where it can, and for a server that is there.',
      ),
    }),
  ),
  lacking: described(
    list(object({ id: text, description: text, secret: flag })),
    'Inputs without a value. The servers that need one are left out.',
  ),
  warnings: described(list(DEFINITION_PROBLEM), 'What was left out or is named otherwise here.'),
});

export const DEFINITION_OPERATIONS: readonly ApiOperation[] = [
  operation({
    id: 'readDefinitions',
    method: 'POST',
    path: '/api/v1/definitions',
    runsAt: 'this-node',
    summary:
      'The definitions that a command line, an address or the text of a client’s file means, checked as when this caller adds them. Adds nothing.',
    body: OFFER,
    maxBodyBytes: MAX_BODY_BYTES,
    schema: OFFERED,
    unredacted: true,
    errors: {
      400: 'The body is not what the operation takes.',
      403: 'A definition does more than the control token alone allows (servers:exec).',
      413: 'The text is too large.',
      415: 'The body is not application/json.',
      422: 'The text is invalid; `problems` says everything that is wrong, with its place in the text.',
    },
    run: ({ body, caller }, { offered }) =>
      mapRunTimeProblems(async () => {
        const offer = bodyOf(OFFER, body);
        if (typeof offer === 'string') return problem(400, 'body_malformed', offer);
        const given = 'document' in offer ? offer : { command: offer.command, name: offer.name ?? null };
        const { servers, lacking, warnings } = await offered.read(given, caller);
        return ok({ servers, lacking, warnings: warnings.map(shownProblem) });
      }),
  }),
];
