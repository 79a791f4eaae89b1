// Results for users come before the specification, the decisions and the pages for contributors.
var Scorer = {
  score: ([docname, , , , score]) => score - (/^(spec|adr|development)\//.test(docname) ? 100 : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
