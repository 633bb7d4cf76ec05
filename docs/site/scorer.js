// How the search ranks what it finds (Sphinx reads this file in place of its own numbers).
//
// A name that is the whole word comes first, shorter ones before longer ones: softmax before nn.Softmax before
// nn.Softmax.forward, and what is in `nn` before the rest. What is kept for old programs (`legacy`) comes last.
var Scorer = {
    objNameMatch: 30,
    objPartialMatch: 6,
    objPrio: { 0: 15, 1: 5, 2: -5 },
    objPrioDefault: 0,
    title: 15,
    partialTitle: 7,
    term: 5,
    partialTerm: 2,
    score: ([page, title, , , score]) => {
        const depth = title.replace("nn.functional", "nn").split(".").length - (title.startsWith("flambeau.nn.") ? 0.5 : 0);
        return score - (page.startsWith("reference/legacy") ? 100 : 0) - (page.startsWith("reference/") ? depth : 0);
    },
};
